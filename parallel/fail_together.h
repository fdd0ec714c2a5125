// One rank's error becomes one message and the end of all ranks.
#pragma once

#include "tp/communicator.h"
#include "tp/error.h"

#include <cstddef>
#include <exception>
#include <functional>
#include <string>

namespace tp {

// An error that every rank knows of: rank 0 reports it and all ranks end by themselves.
class AgreedError : public Error {
 public:
  AgreedError(const std::string& message, std::size_t rank) : Error(message), rank_(rank) {}
  // The rank on which it happened (the lowest, if it was several).
  std::size_t rank() const { return rank_; }

 private:
  std::size_t rank_;
};

// An error in the middle of a step: the other ranks wait inside a collective and cannot be told, only ended.
class LockstepError : public Error {
 public:
  using Error::Error;
};

// Runs `work` on every rank, then tells all ranks whether it succeeded. If it threw anywhere, every rank
// throws AgreedError with the text of the lowest rank that failed. Collective, and `work` itself must not
// communicate unless it does so only when nothing before that can fail on one rank alone.
void fail_together(Communicator& comm, const std::function<void()>& work);

}  // namespace tp
