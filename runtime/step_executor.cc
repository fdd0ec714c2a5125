#include "runtime/step_executor.h"

#include "parallel/collectives.h"
#include "tp/error.h"

#include <algorithm>
#include <cstring>

namespace tp {
namespace {

// One rank's candidates of one output as they travel: this header, then `slots` candidates of which `count`
// are used.
struct CandidateHeader {
  double sum_exp = 0.0;
  float max_logit = 0.0F;
  std::uint32_t count = 0;
};

std::size_t row_bytes(std::size_t slots) { return sizeof(CandidateHeader) + slots * sizeof(Candidate); }

void write_row(const ShardCandidates& part, std::byte* out) {
  const CandidateHeader header{part.sum_exp, part.max_logit, static_cast<std::uint32_t>(part.entries.size())};
  std::memcpy(out, &header, sizeof(header));
  // There may be none, and memcpy takes no null pointer.
  std::ranges::copy(std::as_bytes(std::span(part.entries)), out + sizeof(header));
}

ShardCandidates read_row(const std::byte* in, std::size_t shard_size) {
  CandidateHeader header;
  std::memcpy(&header, in, sizeof(header));
  ShardCandidates part;
  part.max_logit = header.max_logit;
  part.sum_exp = header.sum_exp;
  part.shard_size = shard_size;
  part.entries.resize(header.count);
  std::copy_n(in + sizeof(header), header.count * sizeof(Candidate),
              std::as_writable_bytes(std::span(part.entries)).begin());
  return part;
}

// This rank's part of a row, for an output that needs a few candidates.
ShardCandidates part_of(std::span<const float> logits, Range own, const OutputRow& output) {
  ShardCandidates part = shard_candidates(logits, static_cast<TokenId>(own.begin), output.candidates);
  if (output.target >= 0 && own.contains(static_cast<std::size_t>(output.target)))
    part.entries.push_back({output.target, logits[static_cast<std::size_t>(output.target) - own.begin]});
  return part;
}

}  // namespace

StepExecutor::StepExecutor(Communicator& comm, const Decoder& decoder, const KvCache& cache,
                           Workspace& workspace, std::size_t vocab_size)
    : comm_(comm), decoder_(decoder), cache_(cache), workspace_(workspace), vocab_size_(vocab_size) {
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    vocab_shards_.push_back(shard_columns(vocab_size, {rank, comm.size()}));
  }
}

void StepExecutor::run(const Step& step, const OutputSink& sink) {
  for (const SequenceId sequence : step.ended) block_tables_.erase(sequence);
  if (step.tokens.empty()) return;
  const Batch batch = make_batch(step);
  decoder_.forward(comm_, batch, cache_, workspace_,
                   [&](std::size_t first_output, TensorView<const float> local_logits) {
                     collect(std::span(step.outputs).subspan(first_output, local_logits.rows()), first_output,
                             local_logits, sink);
                   });
}

Batch StepExecutor::make_batch(const Step& step) {
  Batch batch;
  batch.tokens = step.tokens;
  for (const SequenceChunk& chunk : step.chunks) {
    std::vector<BlockId>& table = block_tables_[chunk.sequence];
    if (chunk.first_chunk) table.clear();
    table.insert(table.end(), chunk.new_blocks.begin(), chunk.new_blocks.end());
    batch.spans.push_back({batch.positions.size(), chunk.tokens, chunk.start_position, table});
    for (std::size_t token = 0; token < chunk.tokens; ++token)
      batch.positions.push_back(chunk.start_position + token);
  }
  for (const OutputRow& output : step.outputs) batch.output_rows.push_back(output.row);
  return batch;
}

void StepExecutor::collect(std::span<const OutputRow> outputs, std::size_t first_output,
                           TensorView<const float> local_logits, const OutputSink& sink) {
  collect_candidates(outputs, first_output, local_logits, sink);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].candidates >= vocab_size_)
      collect_row(first_output + i, local_logits.rows_from(i, 1), sink);
  }
}

// All outputs that need a few candidates, in one gather with as many slots as the most demanding needs.
void StepExecutor::collect_candidates(std::span<const OutputRow> outputs, std::size_t first_output,
                                      TensorView<const float> local_logits, const OutputSink& sink) {
  std::vector<std::size_t> rows;
  std::size_t slots = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].candidates >= vocab_size_) continue;
    rows.push_back(i);
    slots = std::max<std::size_t>(slots, outputs[i].candidates + (outputs[i].target >= 0 ? 1 : 0));
  }
  if (rows.empty()) return;

  const std::size_t stride = row_bytes(slots);
  const Range own = vocab_shards_[comm_.rank()];
  std::vector<std::byte> local(rows.size() * stride);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const float> logits(local_logits.row(rows[i]), own.size());
    write_row(part_of(logits, own, outputs[rows[i]]), local.data() + i * stride);
  }
  std::vector<std::byte> all(comm_.is_root() ? local.size() * comm_.size() : 0);
  gather_bytes(comm_, local, all);
  if (!comm_.is_root()) return;

  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<ShardCandidates> parts;
    for (std::size_t rank = 0; rank < comm_.size(); ++rank) {
      parts.push_back(read_row(all.data() + rank * local.size() + i * stride, vocab_shards_[rank].size()));
    }
    sink.on_candidates(first_output + rows[i], merge_candidates(parts));
  }
}

void StepExecutor::collect_row(std::size_t output, TensorView<const float> local_row,
                               const OutputSink& sink) {
  if (comm_.is_root()) whole_row_.resize(vocab_size_);
  gather_columns(comm_, local_row, vocab_shards_, TensorView<float>(whole_row_.data(), 1, whole_row_.size()));
  if (comm_.is_root()) sink.on_row(output, whole_row_);
}

}  // namespace tp
