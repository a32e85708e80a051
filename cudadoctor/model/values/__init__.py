"""What facts are about: the typed values that parsers produce, and their keys, one module for each part of a machine.

Sizes are bytes, times seconds, rates GB/s (1e9 bytes per second), temperatures degrees Celsius, powers watts.
A field that is None was not stated by that source.
"""

from cudadoctor.model.values.base import *
from cudadoctor.model.values.driver import *
from cudadoctor.model.values.kernel import *
from cudadoctor.model.values.ladder import *
from cudadoctor.model.values.links import *
from cudadoctor.model.values.python import *
from cudadoctor.model.values.software import *
from cudadoctor.model.values.surroundings import *
