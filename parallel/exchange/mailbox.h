// Messages that one rank sends to another without waiting for it: between the stages of a pipeline.
#pragma once

#include "parallel/exchange/wait.h"
#include "tp/communicator.h"

#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

namespace tp {

class Mailbox {
 public:
  // Messages of one kind arrive in the order in which they were sent; kinds do not wait for each other.
  enum class Kind : std::uint8_t { command, mask, rows, results };

  // Collective over all ranks of `comm`, which must outlive it. Throws CommError.
  explicit Mailbox(Communicator& comm);
  // Waits until what was sent has been taken, except during stack unwinding.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Takes the bytes and returns. Large messages travel only while this rank is in one of these members.
  // Throws CommError.
  void send(std::size_t target, Kind kind, std::vector<std::byte> bytes);
  void send(std::size_t target, Kind kind, const std::string& bytes);
  // The next message of this kind from `source`, of any size. Throws CommError, also after
  // WaitOptions::timeout.
  std::vector<std::byte> receive(std::size_t source, Kind kind, const Wait::Manner& manner);
  // Receives a message whose size is known.
  void receive(std::size_t source, Kind kind, std::span<std::byte> out, const Wait::Manner& manner);
  // Lets messages travel that are under way.
  void progress();

 private:
  struct Sent {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void wait_for(MPI_Request& request, std::size_t source, const Wait::Manner& manner);

  const Patience& patience_;
  Wait::Ranks own_;  // this rank
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::list<Sent> sent_;  // and perhaps not taken yet
};

}  // namespace tp
