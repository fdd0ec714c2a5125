// Serialization of Command.
#pragma once

#include "runtime/protocol/archive_types.h"
#include "runtime/protocol/command.h"

#include <type_traits>

#include <boost/serialization/array.hpp>
#include <boost/serialization/utility.hpp>
#include <boost/serialization/vector.hpp>

namespace boost::serialization {

// Commands and wants without members.
template <class Archive, class Empty>
requires std::is_empty_v<Empty>
void serialize(Archive& /*archive*/, Empty& /*object*/, unsigned /*version*/) {}

// Omits the seed: SequenceStart contains the effective seed.
template <class Archive>
void serialize(Archive& archive, tp::SamplingParams& params, unsigned /*version*/) {
  archive& params.temperature& params.top_k& params.top_p& params.min_p& params.repetition_penalty& params
      .presence_penalty& params.frequency_penalty& params.logprobs& params.logit_bias;
}

template <class Archive>
void serialize(Archive& archive, tp::LogitBias& bias, unsigned /*version*/) {
  archive& bias.id& bias.bias;
}

template <class Archive>
void serialize(Archive& archive, tp::SequenceStart& start, unsigned /*version*/) {
  archive& start.sampling& start.seed& start.sample& start.prefix& start.prompt_tokens& start
      .bidirectional& start.attention_block& start.context& start.adapter;
  archive& start.input.tokens& start.input.positions& start.input.blocks;
  archive& start.canvas.begin& start.canvas.key& start.canvas.has_next;
}

template <class Archive>
void serialize(Archive& archive, tp::StateSave& save, unsigned /*version*/) {
  archive& save.position& save.slot;
}

template <class Archive>
void serialize(Archive& archive, tp::ChunkState& state, unsigned /*version*/) {
  archive& state.slot& state.from& state.saves;
}

template <class Archive>
void serialize(Archive& archive, tp::SequenceChunk& chunk, unsigned /*version*/) {
  archive& chunk.sequence& chunk.start_position& chunk.tokens& chunk.new_blocks& chunk.state& chunk.start;
}

template <class Archive>
void serialize(Archive& archive, tp::want::Choose& want, unsigned /*version*/) {
  archive& want.banned& want.masked;
}

template <class Archive>
void serialize(Archive& archive, tp::want::Candidates& want, unsigned /*version*/) {
  archive& want.count& want.entropy;
}

template <class Archive>
void serialize(Archive& archive, tp::want::Proposal& want, unsigned /*version*/) {
  archive& want.settings.measure& want.settings.filtered& want.settings.mask_token& want.settings.greedy;
}

template <class Archive>
void serialize(Archive& archive, tp::want::Score& want, unsigned /*version*/) {
  archive& want.targets;
}

template <class Archive>
void serialize(Archive& archive, tp::Output& output, unsigned /*version*/) {
  archive& output.sequence& output.rows.first& output.rows.count& output.want;
}

template <class Archive>
void serialize(Archive& archive, tp::Forward& forward, unsigned /*version*/) {
  archive& forward.tokens& forward.token_types& forward.is_global& forward.chunks& forward.outputs& forward
      .ended& forward.ended_canvases& forward.in_halves& forward.reads_own_states& forward.gives_context;
}

template <class Archive>
void serialize(Archive& archive, tp::DraftForward& draft, unsigned /*version*/) {
  archive& draft.forward;
}

template <class Archive>
void serialize(Archive& archive, tp::StoredRun& run, unsigned /*version*/) {
  archive& run.before& run.id& run.tokens& run.blocks& run.state& run.position;
}

template <class Archive>
void serialize(Archive& archive, tp::StoreTask& task, unsigned /*version*/) {
  archive& task.id& task.runs;
}

template <class Archive>
void serialize(Archive& archive, tp::StoreWork& work, unsigned /*version*/) {
  archive& work.saves& work.loads& work.cancelled& work.clears;
}

template <class Archive>
void serialize(Archive& archive, tp::Stop& stop, unsigned /*version*/) {
  archive& stop.exit_status;
}

}  // namespace boost::serialization
