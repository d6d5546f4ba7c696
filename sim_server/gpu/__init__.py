"""What a GPU model is: its properties as CUDA reports them, its rates, the costs of the host beside
it.
"""

from sim_server.gpu.changes import changed_gpu
from sim_server.gpu.load import load_gpu, profile_names
from sim_server.gpu.profile import AttentionRates, GemmRates, GpuProfile

__all__ = ["AttentionRates", "GemmRates", "GpuProfile", "changed_gpu", "load_gpu", "profile_names"]
