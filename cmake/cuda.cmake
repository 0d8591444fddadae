# The CUDA backend: roco_kernels gets kernels/cuda and the definition that registers it.
#
# ROCO_CUDA=AUTO builds it in Release builds where nvcc is found and a GPU is in the machine, for that GPU alone; ON for
# every generation that is served, which takes minutes, and fails without nvcc; OFF never. The runtime is linked
# statically and cuBLAS is opened at run time, so the program also starts where there is neither.

set(ROCO_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO, ON or OFF")
set_property(CACHE ROCO_CUDA PROPERTY STRINGS AUTO ON OFF)

if(ROCO_CUDA STREQUAL "ON" OR (ROCO_CUDA STREQUAL "AUTO" AND CMAKE_BUILD_TYPE STREQUAL "Release" AND
                               NOT ROCO_SANITIZE AND EXISTS /dev/nvidiactl))
  include(CheckLanguage)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND ROCO_CUDA STREQUAL "AUTO")
    set(CMAKE_CUDA_ARCHITECTURES native)
  elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(ROCO_CUDA_ARCHITECTURES_ARE_OURS TRUE)
    set(CMAKE_CUDA_ARCHITECTURES 80)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(ROCO_HAS_CUDA TRUE)
  elseif(ROCO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ROCO_CUDA is ON and there is no nvcc; set CMAKE_CUDA_COMPILER or put it on the PATH")
  endif()
endif()

if(NOT ROCO_HAS_CUDA)
  return()
endif()

if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
  if(ROCO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old; the least is 12.4")
  endif()
  message(STATUS "no CUDA backend: nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old; the least is 12.4")
  set(ROCO_HAS_CUDA FALSE)
  return()
endif()
find_package(CUDAToolkit REQUIRED)

# Machine code for each generation that is served, and PTX of the last for those to come.
if(ROCO_CUDA_ARCHITECTURES_ARE_OURS)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90a-real 90-virtual)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90a-real 100-real 120-real 120-virtual)
  endif()
endif()
message(STATUS "CUDA backend: nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")

file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.c ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
target_sources(roco_kernels PRIVATE ${cuda_sources})
set_source_files_properties(${cuda_sources} PROPERTIES INCLUDE_DIRECTORIES "${CUDAToolkit_INCLUDE_DIRS}")
target_compile_definitions(roco_kernels PRIVATE ROCO_HAS_CUDA)
# Said here, since the target was made before CUDA was asked for.
set_target_properties(roco_kernels PROPERTIES CUDA_RESOLVE_DEVICE_SYMBOLS OFF
    CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
# As on the CPU: a product is fused with a sum only where the code says so.
target_compile_options(roco_kernels PRIVATE 
  "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--fmad=false;-Xcompiler=-Wall>")
target_link_libraries(roco_kernels PUBLIC CUDA::cudart_static ${CMAKE_DL_LIBS} rt)
