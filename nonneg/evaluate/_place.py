"""Where codes are compared."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch


def placed(codes: Any) -> Any:
    """Dense codes on the GPU where there is one, which compares all samples with all in no time; others as they are.

    Example:
        >>> placed(sp.csr_array(np.eye(2))).shape
        (2, 2)
    """
    if sp.issparse(codes) or not torch.cuda.is_available():
        return codes
    return torch.from_numpy(np.array(codes)).to("cuda")  # a copy: torch wants memory that can be written
