"""Which driver, CUDA toolkit and torch work together, and whose fault it is where they do not.

A kernel library carries machine code for the present GPU and its toolkit's own runtime. So it needs a driver of the
toolkit's major version or newer, and does not care which CUDA torch was built with. Versions are texts (``13.0``), and
empty where they are not known.
"""

from __future__ import annotations

from functools import cache

from sandbox.errors import EnvironmentFault
from sandbox.machine.devices import nvml


@cache
def driver_cuda() -> str:
    """Return the newest CUDA version that the driver knows; empty without a driver."""
    try:
        version = int(nvml().nvmlSystemGetCudaDriverVersion_v2())
    except EnvironmentFault:
        return ""
    return f"{version // 1000}.{version % 1000 // 10}"


def refuse_old_driver(toolkit: str, driver_cuda: str, where: str) -> None:
    """Raise where kernels of a toolkit, found at ``where``, cannot start on a driver.

    Raises:
        EnvironmentFault: The driver is of an older major version.
    """
    problem = driver_problem(toolkit, driver_cuda)
    if problem:
        raise EnvironmentFault(
            f"{problem[0].upper()}{problem[1:]}.",
            where=where,
            next_step=f"Update the driver, or point CUDA_HOME at a CUDA {_major(driver_cuda)} toolkit.",
        )


def driver_problem(toolkit: str, driver_cuda: str) -> str:
    """Return why what a toolkit compiles does not start on a driver, or an empty string."""
    if not toolkit or not driver_cuda or _major(toolkit) <= _major(driver_cuda):
        return ""
    return f"kernels of CUDA {toolkit} do not start here: the driver knows CUDA up to {driver_cuda} (cudaErrorInsufficientDriver)"


def torch_problem(torch_cuda: str, driver_cuda: str) -> str:
    """Return why a torch built with a CUDA version finds no GPU under a driver, or an empty string."""
    if not torch_cuda or not driver_cuda or _major(torch_cuda) <= _major(driver_cuda):
        return ""
    return f"torch was built with CUDA {torch_cuda}, and the driver knows CUDA up to {driver_cuda}"


def toolkit_note(toolkit: str, torch_cuda: str) -> str:
    """Return what it means that a toolkit is of another major version than torch's CUDA; empty where it is not."""
    if not toolkit or not torch_cuda or _major(toolkit) == _major(torch_cuda):
        return ""
    return "kernels bring their own runtime, so the toolkit need not be torch's"


def _major(version: str) -> int:
    return int(version.partition(".")[0])
