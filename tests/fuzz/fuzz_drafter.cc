// A drafter's config.json of any text beside its target's. An input is the drafter's text, a zero byte and
// the target's text.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/config/drafters/drafter_config.h"
#include "tests/fuzz/fuzz_files.h"

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace tp {
namespace {

// The places exist in the target, and there is one for each stream that the drafter reads.
void check_places(const CheckpointConfig& drafter, const ModelSpec& target) {
  const std::vector<std::size_t> places = captured_places(drafter.drafter, target.blocks.size());
  if (places.size() != captured_streams(drafter.drafter)) std::abort();
  for (const std::size_t place : places) {
    if (place > target.blocks.size()) std::abort();
  }
}

}  // namespace
}  // namespace tp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tp;
  const auto texts = divided_at_zero({data, size});
  if (!texts) return 0;
  expect_error_or_none([&] {
    const CheckpointConfig drafter = parse_config(text_of(texts->first), "drafter");
    const ModelSpec spec = make_spec(drafter);
    if (drafter.drafter.kind == DrafterKind::none) return;
    if (!spec.drafter || spec.drafter->streams != captured_streams(drafter.drafter)) std::abort();
    expect_error_or_none([&] { describe_places(drafter.drafter); });
    const CheckpointConfig target = parse_config(text_of(texts->second), "target");
    check_places(drafter, make_spec(target));
  });
  return 0;
}
