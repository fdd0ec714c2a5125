// Tells the sanitizers about code that is not ours. Every program under sanitizers links this file, so
// programs behave the same when they are started by hand, by CTest or by mpirun.

extern "C" {

// Keeps the plugins of Open MPI loaded. The leak checker runs when the program ends, and it cannot name the
// library of an allocation after that library was unloaded.
int dlclose(void*) { return 0; }

const char* __lsan_default_suppressions() {
  return
      // Open MPI allocates data in MPI_Init that it does not free in MPI_Finalize: tables of reduction
      // operations,
      "leak:libmpi.so\n"
      "leak:/openmpi3/mca_\n"
      // parameters,
      "leak:libopen-pal.so\n"
      // data that mpirun sent through PMIx,
      "leak:libpmix.so\n"
      // bindings of ranks,
      "leak:hwloc_bitmap_alloc\n"
      // and texts. The checker does not see the caller of the C library, but only Open MPI formats text this
      // way.
      "leak:vasprintf\n"
      // clang's OpenMP runtime keeps data about threads that it no longer runs.
      "leak:libomp.so\n";
}

const char* __lsan_default_options() { return "print_suppressions=0"; }

// Libraries are not compiled for the thread sanitizer, so it does not see how they synchronize.
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

}  // extern "C"
