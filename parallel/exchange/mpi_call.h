#pragma once

namespace tp {

// Throws CommError with MPI's error text if `code` is not MPI_SUCCESS. `call` is the call's source text, from
// which the error takes the function's name.
void check_mpi(int code, const char* call);

}  // namespace tp

// TP_MPI(MPI_Barrier(comm)) calls the function and checks its return code.
#define TP_MPI(call) ::tp::check_mpi((call), #call)
