// Messages between the stages of a pipeline. The sender does not wait for the receiver.
#pragma once

#include "parallel/exchange/wait.h"
#include "tp/communicator.h"

#include <cstddef>
#include <list>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

namespace tp {

class Mailbox {
 public:
  // Messages of the same kind arrive in the order in which they were sent. Messages of different kinds don't
  // wait for each other.
  enum class Kind : std::uint8_t { command, mask, rows, results };

  // Collective over all ranks of `comm`, which must outlive this object. Throws CommError.
  explicit Mailbox(Communicator& comm);
  // Waits until MPI has sent all messages, except during stack unwinding.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Returns immediately. Large messages make progress only while this rank calls member functions. Throws
  // CommError.
  void send(std::size_t target, Kind kind, std::vector<std::byte> bytes);
  void send(std::size_t target, Kind kind, const std::string& bytes);
  // Receives the next message of this kind from `source`, whatever its size. Throws CommError, for example
  // after WaitOptions::timeout.
  std::vector<std::byte> receive(std::size_t source, Kind kind, const Wait::Manner& manner);
  // Receives the next message of this kind, whose size must be out.size().
  void receive(std::size_t source, Kind kind, std::span<std::byte> out, const Wait::Manner& manner);
  // Lets messages in flight make progress.
  void progress();

 private:
  struct Sent {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void wait_for(MPI_Request& request, std::size_t source, const Wait::Manner& manner);

  const Patience& patience_;
  Wait::Ranks own_;  // only this rank
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::list<Sent> sent_;  // messages that MPI may not have sent yet
};

}  // namespace tp
