// Tiny checkpoints with logits that the family's original modelling code computed.
//
// tests/data/seeded has no weights. The build computes them by a formula (seeded_weights.h) and writes
// complete checkpoint folders into the build folder, where all tests read them. It has the largest logits and
// sums over all logits (expected_rows.h). tests/data/logits has a few fixtures with weight files and all
// logits, for tests that need more.
#pragma once

#include "tests/reference/expected_rows.h"
#include "tests/reference/npy_array.h"
#include "tp/token_id.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tp::reference {

struct Fixture {
  std::string name;
  std::filesystem::path folder;  // config.json and *.safetensors
  std::vector<TokenId> prompt;
  std::vector<TokenId> greedy;  // the greedy continuation, which an end-of-sequence token does not stop
  ExpectedRows rows;            // logits of the prompt
  ExpectedRows greedy_rows;     // logits that chose the greedy tokens, at the positions before them
  // The float32 error of the logits, compared with float64, or the error of logits by weights that are
  // rounded to float32, if it is larger; 0 if neither was measured.
  double noise = 0.0;
};

// A fixture with all logits.
struct StoredFixture : Fixture {
  NpyArray logits;  // [prompt, vocab_size]
};

// Returns the seeded fixtures of these families, with float weights. Leaves out fixtures with too few heads
// for tests on four ranks.
std::vector<Fixture> fixtures_of(const std::vector<std::string>& architectures);
// Returns the fixtures with quantized weights.
std::vector<Fixture> quantized_fixtures_of(const std::vector<std::string>& architectures);
Fixture fixture(const std::string& name);
// Returns the names of the fixtures with few heads.
std::vector<std::string> names_with_few_heads();
// A fixture with an adapter, in its folder `adapter`. `base`: the folder of the model.
struct AdapterFixture : Fixture {
  std::filesystem::path base;
};
AdapterFixture adapter_fixture(const std::string& name);
std::vector<std::string> adapter_fixtures();
// Returns a GGUF adapter of tests/data with the same numbers as the fixture of this name.
std::filesystem::path gguf_adapter(const std::string& name);

// Returns the architecture of every seeded fixture, by kind (logits, encoders, seq2seq, diffusion) and name.
std::map<std::string, std::string> fixture_architectures(const std::string& kind);

// Returns the folder of a seeded fixture, with its weights.
std::filesystem::path seeded_folder(const std::string& kind, const std::string& name = {});

// Returns a fixture of tests/data/logits.
StoredFixture stored_fixture(const std::string& name);

// Returns the GGUF models of tests/data, which other programs wrote.
std::vector<StoredFixture> gguf_fixtures();

}  // namespace tp::reference
