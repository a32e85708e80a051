"""What texts say: messages of programs, long logs, words that only raise suspicions, and what decides between neighbours. Pure."""
