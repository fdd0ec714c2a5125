// The fingerprint of everything that determines the bits of stored keys, values and states.
#pragma once

#include "model/files/content_hash.h"
#include "parallel/machine/sha256.h"
#include "tp/engine_options.h"

#include <span>
#include <string>

namespace tp {

struct ModelSpec;

// The facts about a model and an engine, as text. `options`: with the values that replace defaults.
// `weights`: the identity of the model's files.
std::string store_facts(const EngineOptions& options, const ModelSpec& spec, const ContentHash& weights);

// The model and its types, in a line for people.
std::string store_description(const EngineOptions& options);

// The fingerprint of all ranks: equal for any number of ranks with equal digests of their facts.
Sha256Digest common_fingerprint(std::span<const Sha256Digest> ranks);

}  // namespace tp
