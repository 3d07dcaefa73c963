"""Arrow's arrays and kernels for the type checker: pyarrow's own stubs refuse what kernels take."""

from __future__ import annotations

from typing import Any

import pyarrow.compute

Array = Any
kernels: Any = pyarrow.compute
