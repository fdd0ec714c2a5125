#include "tp/communicator.h"

#include "parallel/all_reduce.h"
#include "parallel/exchange.h"
#include "parallel/mpi_call.h"
#include "parallel/placement.h"
#include "parallel/processors.h"
#include "parallel/tracer.h"
#include "parallel/wait.h"
#include "tp/mpi.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace tp {

Communicator::Communicator(const MpiHandle& parent, WaitOptions waits)
    : handle_(std::make_unique<MpiHandle>(MPI_COMM_NULL)), tracer_(std::make_unique<Tracer>()) {
  TP_MPI(MPI_Comm_dup(parent, &handle_->value));
  // Errors are returned and thrown: one clear message instead of MPI's abort.
  TP_MPI(MPI_Comm_set_errhandler(*handle_, MPI_ERRORS_RETURN));
  placement_ = std::make_unique<Placement>(find_placement(*handle_));
  rank_ = placement_->rank;
  size_ = placement_->size();
  const std::vector<std::size_t>& host = placement_->own_host();
  local_rank_ = static_cast<std::size_t>(std::ranges::find(host, rank_) - host.begin());
  local_size_ = host.size();
  patience_ = std::make_unique<Patience>(Patience{
      .placement = *placement_, .options = std::move(waits), .crowded = local_size_ > online_processors()});
  exchange_ = std::make_unique<Exchange>(*handle_, *patience_);
  sums_ = std::make_unique<AllReduce>(*handle_, *patience_, *exchange_);
}

Communicator::~Communicator() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  sums_.reset();
  // During stack unwinding the other ranks may be anywhere.
  if (finalized == 0 && std::uncaught_exceptions() == 0) MPI_Comm_free(&handle_->value);
}

const std::string& Communicator::not_shared_because() const { return sums_->not_shared_because(); }

}  // namespace tp
