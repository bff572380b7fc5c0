"""Every honest candidate of the suite, from the files beside this one.

One style of honest people is not here, because the guard refuses it and says why: operators that a candidate registers itself.
They are made when a change lands; what the whole process finds under a name would be anybody's to change.
"""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.attentions import ATTENTIONS
from tests.candidates.honest.dispatch import DISPATCH
from tests.candidates.honest.dtypes import DTYPES
from tests.candidates.honest.idioms import IDIOMS
from tests.candidates.honest.images import IMAGES
from tests.candidates.honest.layers import LAYERS
from tests.candidates.honest.lookups import LOOKUPS
from tests.candidates.honest.machine_level import MACHINE_LEVEL
from tests.candidates.honest.norms import NORMS
from tests.candidates.honest.openly import OPENLY
from tests.candidates.honest.orders import ORDERS
from tests.candidates.honest.own_files import OWN_FILES
from tests.candidates.honest.phases import PHASES
from tests.candidates.honest.pointwise import POINTWISE
from tests.candidates.honest.products import PRODUCTS
from tests.candidates.honest.reductions import REDUCTIONS
from tests.candidates.honest.state import STATE
from tests.candidates.honest.streams import STREAMS
from tests.candidates.honest.tensor_cores import TENSOR_CORES
from tests.candidates.honest.trained import TRAINED

HONEST: dict[str, Candidate] = {
    candidate.name: candidate
    for candidate in (
        *POINTWISE,
        *MACHINE_LEVEL,
        *DISPATCH,
        *DTYPES,
        *NORMS,
        *REDUCTIONS,
        *ORDERS,
        *PRODUCTS,
        *TENSOR_CORES,
        *LAYERS,
        *STREAMS,
        *IMAGES,
        *STATE,
        *ATTENTIONS,
        *LOOKUPS,
        *TRAINED,
        *OWN_FILES,
        *OPENLY,
        *IDIOMS,
        *PHASES,
    )
}
