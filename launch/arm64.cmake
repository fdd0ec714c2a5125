# CMake's toolchain file for 64-bit ARM on an x86-64 machine with Debian: cmake --preset arm64. launch/cross-arm64 makes the sysroot.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# A folder with Debian's arm64 packages, unpacked.
if(DEFINED ENV{TP_ARM64_SYSROOT})
  set(TP_ARM64_SYSROOT "$ENV{TP_ARM64_SYSROOT}")
else()
  set(TP_ARM64_SYSROOT "$ENV{HOME}/.cache/tp-infer-arm64/sysroot")
endif()
if(NOT EXISTS ${TP_ARM64_SYSROOT}/usr/include)
  message(FATAL_ERROR "TP_ARM64_SYSROOT: expected a folder with Debian's arm64 packages, found nothing in ${TP_ARM64_SYSROOT}; "
                      "run launch/cross-arm64 --sysroot")
endif()
set(CMAKE_SYSROOT ${TP_ARM64_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(arm64_libraries ${TP_ARM64_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${arm64_libraries}/pkgconfig:${TP_ARM64_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${TP_ARM64_SYSROOT})
# Unpacking makes no links of Debian's alternatives, so libraries that need others through them name their folder.
string(APPEND CMAKE_CXX_FLAGS_INIT " -Wno-psabi")  # g++ 12 notes that g++ 9 passed std::pair in another way
string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -Wl,-rpath-link,${arm64_libraries}/openblas-openmp")

# CMake asks a compiler wrapper for MPI's folders, and a wrapper for ARM does not run here.
set(MPI_CXX_HEADER_DIR ${arm64_libraries}/openmpi/include)
set(MPI_CXX_LIB_NAMES mpi)
set(MPI_mpi_LIBRARY ${arm64_libraries}/openmpi/lib/libmpi.so)

# CTest and the build run ARM programs with it. The environment variable QEMU_CPU chooses the processor.
find_program(TP_QEMU qemu-aarch64)
if(TP_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${TP_QEMU};-L;${TP_ARM64_SYSROOT})
endif()
