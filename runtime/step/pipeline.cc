#include "runtime/step/pipeline.h"

#include "parallel/exchange/archive.h"
#include "parallel/exchange/collectives.h"
#include "runtime/protocol/command_archive.h"
#include "runtime/protocol/outputs_archive.h"

#include <cstring>
#include <span>
#include <string>

namespace tp {
namespace {

constexpr Wait::Manner kCommand{.collective = "a command", .polite = true, .root_has_time = true};
constexpr Wait::Manner kRows{.collective = "a stage of the pipeline"};
constexpr Wait::Manner kResults{.collective = "the last stage of the pipeline"};

std::string as_string(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A rank's part of the elements that two stages exchange.
Range part_of(std::size_t elements, std::size_t rank, std::size_t ranks) {
  return split_evenly(elements, {rank, ranks});
}

}  // namespace

Pipeline::Pipeline(Communicator& world, std::size_t stages)
    : world_(world), topology_(world, stages), stage_(topology_.place().stage), mailbox_(world) {}

std::size_t Pipeline::counterpart(std::size_t stage) const {
  return topology_.stage(stage)[topology_.place().tensor.rank];
}

std::size_t Pipeline::collector() const { return topology_.stage(stage_.count - 1).front(); }

Model::StageLinks Pipeline::links() {
  if (stage_.is_whole()) return {};
  return {.receive = [this](TensorView<float> x) { receive_rows(x); },
          .send = [this](TensorView<const float> x) { send_rows(x); },
          .progress = [this] { mailbox_.progress(); }};
}

void Pipeline::send_command(const Command& command) {
  const std::string archive = to_archive(command);
  for (std::size_t rank = 0; rank < world_.size(); ++rank) {
    if (rank != world_.rank()) mailbox_.send(rank, Mailbox::Kind::command, archive);
  }
}

Command Pipeline::receive_command() {
  Command command;
  from_archive(as_string(mailbox_.receive(0, Mailbox::Kind::command, kCommand)), command);
  return command;
}

void Pipeline::send_mask(const TokenMask& mask) {
  const auto bytes = std::as_bytes(mask.words());
  mailbox_.send(collector(), Mailbox::Kind::mask, std::vector<std::byte>(bytes.begin(), bytes.end()));
}

TokenMask Pipeline::receive_mask(std::size_t vocab_size) {
  const std::vector<std::byte> bytes = mailbox_.receive(0, Mailbox::Kind::mask, kCommand);
  TokenMask mask(vocab_size);
  // An empty message means that rank 0 could not compute the mask. The mask then allows no token.
  if (bytes.size() == mask.words().size_bytes()) std::memcpy(mask.words().data(), bytes.data(), bytes.size());
  return mask;
}

void Pipeline::send_results(const std::vector<Result>& results) {
  mailbox_.send(0, Mailbox::Kind::results, to_archive(results));
}

std::vector<Result> Pipeline::receive_results() {
  std::vector<Result> results;
  from_archive(as_string(mailbox_.receive(collector(), Mailbox::Kind::results, kResults)), results);
  return results;
}

// Each rank sends only its part, so no element is sent twice between the stages.
void Pipeline::send_rows(TensorView<const float> x) {
  Communicator& group = tensor();
  const Range part = part_of(x.size(), group.rank(), group.size());
  if (part.empty()) return;
  const auto bytes = std::as_bytes(std::span(x.data() + part.begin, part.size()));
  mailbox_.send(counterpart(stage_.index + 1), Mailbox::Kind::rows,
                std::vector<std::byte>(bytes.begin(), bytes.end()));
}

void Pipeline::receive_rows(TensorView<float> x) {
  Communicator& group = tensor();
  const auto bytes_of = [&](std::size_t rank) {
    const Range part = part_of(x.size(), rank, group.size());
    return std::as_writable_bytes(std::span(x.data() + part.begin, part.size()));
  };
  const std::span<std::byte> own = bytes_of(group.rank());
  if (!own.empty()) mailbox_.receive(counterpart(stage_.index - 1), Mailbox::Kind::rows, own, kRows);
  if (group.size() == 1) return;
  std::vector<std::span<const std::byte>> to(group.size(), own);
  std::vector<std::span<std::byte>> from;
  for (std::size_t rank = 0; rank < group.size(); ++rank) from.push_back(bytes_of(rank));
  exchange_parts(group, to, from);
}

}  // namespace tp
