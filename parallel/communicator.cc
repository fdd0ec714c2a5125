#include "tp/communicator.h"

#include "parallel/mpi_call.h"
#include "parallel/processors.h"
#include "parallel/shared_sum.h"
#include "parallel/tracer.h"

namespace tp {

Communicator::Communicator(MPI_Comm parent) : tracer_(std::make_unique<Tracer>()) {
  TP_MPI(MPI_Comm_dup(parent, &handle_));
  // Errors are returned and thrown: one clear message instead of MPI's abort.
  TP_MPI(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN));
  int rank = 0;
  int size = 1;
  TP_MPI(MPI_Comm_rank(handle_, &rank));
  TP_MPI(MPI_Comm_size(handle_, &size));
  rank_ = static_cast<std::size_t>(rank);
  size_ = static_cast<std::size_t>(size);

  MPI_Comm host = MPI_COMM_NULL;
  TP_MPI(MPI_Comm_split_type(handle_, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host));
  TP_MPI(MPI_Comm_rank(host, &rank));
  TP_MPI(MPI_Comm_size(host, &size));
  TP_MPI(MPI_Comm_free(&host));
  local_rank_ = static_cast<std::size_t>(rank);
  local_size_ = static_cast<std::size_t>(size);
  oversubscribed_ = local_size_ > online_processors();
  shared_sum_ = SharedSum::create(handle_);
  if (shared_sum_) shared_sum_->measure();
}

Communicator::~Communicator() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  shared_sum_.reset();
  if (finalized == 0 && handle_ != MPI_COMM_NULL) MPI_Comm_free(&handle_);
}

}  // namespace tp
