#include "tp/communicator.h"

#include "parallel/exchange/all_reduce.h"
#include "parallel/exchange/exchange.h"
#include "parallel/exchange/mpi_call.h"
#include "parallel/exchange/overlap.h"
#include "parallel/exchange/placement.h"
#include "parallel/exchange/tracer.h"
#include "parallel/exchange/wait.h"
#include "tp/mpi.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

namespace tp {
namespace {

std::unique_ptr<MpiHandle> duplicate(MPI_Comm parent) {
  MPI_Comm comm = MPI_COMM_NULL;
  TP_MPI(MPI_Comm_dup(parent, &comm));
  return std::make_unique<MpiHandle>(comm);
}

std::unique_ptr<MpiHandle> subgroup(MPI_Comm parent, std::span<const std::size_t> ranks) {
  constexpr int kTag = 0;
  const std::vector<int> numbers(ranks.begin(), ranks.end());
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  TP_MPI(MPI_Comm_group(parent, &all));
  TP_MPI(MPI_Group_incl(all, static_cast<int>(numbers.size()), numbers.data(), &some));
  MPI_Comm comm = MPI_COMM_NULL;
  TP_MPI(MPI_Comm_create_group(parent, some, kTag, &comm));
  TP_MPI(MPI_Group_free(&some));
  TP_MPI(MPI_Group_free(&all));
  return std::make_unique<MpiHandle>(comm);
}

// Users of Open MPI set this variable if ranks share cores, for example if one machine simulates several
// hosts.
bool yields_when_idle() {
  const char* const value = std::getenv("OMPI_MCA_mpi_yield_when_idle");
  return value != nullptr && (std::string_view(value) == "1" || std::string_view(value) == "true");
}

}  // namespace

Communicator::Communicator(const MpiHandle& parent, WaitOptions waits)
    : Communicator(duplicate(parent), std::make_unique<Placement>(find_placement(parent)), std::move(waits),
                   std::make_shared<Tracer>()) {}

Communicator::Communicator(const Communicator& parent, std::span<const std::size_t> ranks)
    : Communicator(subgroup(parent.handle(), ranks),
                   std::make_unique<Placement>(parent.placement().restricted_to(ranks)),
                   parent.patience_->options, parent.tracer_) {}

Communicator::Communicator(std::unique_ptr<MpiHandle> handle, std::unique_ptr<Placement> placement,
                           WaitOptions waits, std::shared_ptr<Tracer> tracer)
    : handle_(std::move(handle)), placement_(std::move(placement)), tracer_(std::move(tracer)) {
  // Makes MPI calls return error codes, which TP_MPI turns into exceptions, so that the user gets one clear
  // message instead of an abort.
  TP_MPI(MPI_Comm_set_errhandler(*handle_, MPI_ERRORS_RETURN));
  rank_ = placement_->rank;
  size_ = placement_->size();
  const std::vector<std::size_t>& host = placement_->own_host();
  local_rank_ = static_cast<std::size_t>(std::ranges::find(host, rank_) - host.begin());
  local_size_ = host.size();
  patience_ =
      std::make_unique<Patience>(Patience{.placement = *placement_,
                                          .options = std::move(waits),
                                          .crowded = placement_->core_share == 0 || yields_when_idle()});
  exchange_ = std::make_unique<Exchange>(*handle_, *patience_);
  sums_ = std::make_unique<AllReduce>(*handle_, *patience_, *exchange_);
}

Communicator::~Communicator() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  overlap_.reset();
  sums_.reset();
  // MPI_Comm_free is collective, but during stack unwinding, the other ranks may never call it.
  if (finalized == 0 && std::uncaught_exceptions() == 0) MPI_Comm_free(&handle_->value);
}

Exchange& Communicator::exchange() {
  if (overlaps()) overlap_->thread().wait_until_idle();
  return *exchange_;
}

Overlap& Communicator::overlap() {
  if (!overlap_) overlap_ = std::make_unique<Overlap>();
  return *overlap_;
}

bool Communicator::overlaps() const { return overlap_ != nullptr && overlap_->is_active(); }

const std::string& Communicator::not_shared_because() const { return sums_->not_shared_because(); }

}  // namespace tp
