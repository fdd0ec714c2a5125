// Serialization of the results of a Forward.
#pragma once

#include "runtime/protocol/archive_types.h"
#include "runtime/protocol/outputs.h"

#include <boost/serialization/vector.hpp>

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, tp::TokenLogprob& token, unsigned /*version*/) {
  archive& token.id& token.logprob;
}

template <class Archive>
void serialize(Archive& archive, tp::Chosen& chosen, unsigned /*version*/) {
  archive& chosen.id& chosen.logprob& chosen.top_logprobs& chosen.error;
}

template <class Archive>
void serialize(Archive& archive, tp::RowCandidates& row, unsigned /*version*/) {
  archive& row.best& row.entropy;
}

template <class Archive>
void serialize(Archive& archive, tp::Proposal& proposal, unsigned /*version*/) {
  archive& proposal.id& proposal.confidence& proposal.best;
}

template <class Archive>
void serialize(Archive& archive, tp::WholeRows& rows, unsigned /*version*/) {
  archive& rows.columns& rows.values;
}

}  // namespace boost::serialization
