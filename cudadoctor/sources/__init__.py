"""Where evidence comes from: a live host, a recording, a user's text. Only this package and workers/ touch the machine."""
