#include "parallel/exchange/mailbox.h"

#include "parallel/exchange/mpi_call.h"
#include "tp/internal/require.h"
#include "tp/mpi.h"

#include <climits>
#include <exception>
#include <utility>

namespace tp {
namespace {

int int_of(std::size_t bytes) {
  require<CommError>(bytes <= INT_MAX, "a message of {} bytes is too large, MPI counts up to {}", bytes,
                     INT_MAX);
  return static_cast<int>(bytes);
}

int tag_of(Mailbox::Kind kind) { return static_cast<int>(kind); }

}  // namespace

Mailbox::Mailbox(Communicator& comm) : patience_(comm.patience()), own_{comm.rank()} {
  TP_MPI(MPI_Comm_dup(comm.handle(), &comm_));
  TP_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
}

Mailbox::~Mailbox() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0 || std::uncaught_exceptions() > 0) return;
  for (Sent& sent : sent_) MPI_Wait(&sent.request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&comm_);
}

void Mailbox::send(std::size_t target, Kind kind, std::vector<std::byte> bytes) {
  progress();
  Sent& sent = sent_.emplace_back(Sent{std::move(bytes)});
  TP_MPI(MPI_Isend(sent.bytes.data(), int_of(sent.bytes.size()), MPI_BYTE, static_cast<int>(target),
                   tag_of(kind), comm_, &sent.request));
}

void Mailbox::send(std::size_t target, Kind kind, const std::string& bytes) {
  const std::span<const std::byte> view = std::as_bytes(std::span(bytes));
  send(target, kind, std::vector<std::byte>(view.begin(), view.end()));
}

void Mailbox::progress() {
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    int taken = 0;
    TP_MPI(MPI_Test(&sent->request, &taken, MPI_STATUS_IGNORE));
    sent = taken != 0 ? sent_.erase(sent) : std::next(sent);
  }
}

void Mailbox::wait_for(MPI_Request& request, std::size_t source, const Wait::Manner& manner) {
  int done = 0;
  TP_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
  if (done != 0) return;
  Wait wait(patience_, manner, own_, [&] { return Wait::Ranks{source}; });
  while (true) {
    progress();
    TP_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done != 0) return;
    wait.turn();
  }
}

void Mailbox::receive(std::size_t source, Kind kind, std::span<std::byte> out, const Wait::Manner& manner) {
  MPI_Request request = MPI_REQUEST_NULL;
  TP_MPI(MPI_Irecv(out.data(), int_of(out.size()), MPI_BYTE, static_cast<int>(source), tag_of(kind), comm_,
                   &request));
  wait_for(request, source, manner);
}

std::vector<std::byte> Mailbox::receive(std::size_t source, Kind kind, const Wait::Manner& manner) {
  int found = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  const auto look = [&] {
    TP_MPI(MPI_Improbe(static_cast<int>(source), tag_of(kind), comm_, &found, &message, &status));
    return found != 0;
  };
  if (!look()) {
    Wait wait(patience_, manner, own_, [&] { return Wait::Ranks{source}; });
    while (!look()) {
      progress();
      wait.turn();
    }
  }
  int size = 0;
  TP_MPI(MPI_Get_count(&status, MPI_BYTE, &size));
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  TP_MPI(MPI_Imrecv(bytes.data(), size, MPI_BYTE, &message, &request));
  wait_for(request, source, manner);
  return bytes;
}

}  // namespace tp
