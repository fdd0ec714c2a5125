#include "tp/version.h"

#include "parallel/exchange/commit.h"

#include <string>

#include <fmt/format.h>
#include <mpi.h>

namespace tp {
namespace {

std::string mpi_text() {
#ifdef OMPI_MAJOR_VERSION
  return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
  return "MPICH " MPICH_VERSION;
#else
  return fmt::format("MPI {}.{}", MPI_VERSION, MPI_SUBVERSION);
#endif
}

}  // namespace

std::string_view build_commit() { return kCommit; }

std::string build_text() {
  return fmt::format("{}, commit {}, {}, {}", kVersion, kCommit, TP_BUILD_OPTIONS, mpi_text());
}

}  // namespace tp
