#include "parallel/exchange/mpi_call.h"

#include "tp/internal/require.h"

#include <string_view>

#include <mpi.h>

namespace tp {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::string_view name(call);
  name = name.substr(0, name.find('('));
  throw_error<CommError>(
      "{} failed: {}; another rank may have ended (look for its message), or memory may have run out", name,
      std::string_view(text, static_cast<std::size_t>(length)));
}

}  // namespace tp
