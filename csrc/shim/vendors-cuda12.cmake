# The libraries of the CUDA 12 set whose SONAME differs from that of the CUDA 13 set; the others are the same.
vendor_library(cublas libcublas.so.12 libcublas.so.12)
vendor_library(cublasLt libcublasLt.so.12 libcublasLt.so.12)
vendor_library(cudart libcudart.so.12 libcudart.so.12)
vendor_library(cufft libcufft.so.11 libcufft.so.11)
vendor_library(cupti libcupti.so.12 libcupti.so.12)
vendor_library(cusolver libcusolver.so.11 libcusolver.so.11)
vendor_library(nvJitLink libnvJitLink.so.12 libnvJitLink.so.12)
vendor_library(nvrtc libnvrtc.so.12 libnvrtc.so.12)
