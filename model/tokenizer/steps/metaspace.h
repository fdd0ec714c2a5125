#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/steps/split.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tp {

// Which pieces of a text get a mark for a space in front of them, as if a space had been there.
enum class PrependScheme : std::uint8_t { always, first, never };

// Reads `prepend_scheme`, or the older `add_prefix_space`, of a Metaspace part.
PrependScheme prepend_scheme_from_json(const JsonNode& json);

// The pre-tokenizer "Metaspace": spaces become a visible mark, usually U+2581, and words begin at marks.
class Metaspace {
 public:
  // `split`: cut before every mark.
  Metaspace(std::string mark, PrependScheme scheme, bool split);

  void operator()(PreTokens& tokens) const;

 private:
  std::string mark_;
  PrependScheme scheme_;
  std::optional<Split> words_;
};

}  // namespace tp
