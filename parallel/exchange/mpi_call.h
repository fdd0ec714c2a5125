// Checks the return codes of MPI calls.
#pragma once

namespace tp {

// Throws CommError with MPI's own text unless `code` is MPI_SUCCESS. `call` is the call's source text; the
// error contains the function's name.
void check_mpi(int code, const char* call);

}  // namespace tp

// TP_MPI(MPI_Barrier(comm)) calls the function and checks its return code.
#define TP_MPI(call) ::tp::check_mpi((call), #call)
