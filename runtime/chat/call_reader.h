// Readers of calls in the notations of model families, byte by byte.
#pragma once

#include "runtime/chat/json_scanner.h"
#include "runtime/chat/message.h"
#include "runtime/chat/tag_notation.h"
#include "runtime/chat/tool_set.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

class CallReader {
 public:
  enum class State : std::uint8_t {
    reads,
    ended,    // the following text is not part of the calls
    invalid,  // the text is not a call, or a call that began is incomplete
  };

  virtual ~CallReader() = default;

  // Reads the next byte, and adds the completed parts to `pieces`.
  virtual State push(char byte, MessagePieces& pieces) = 0;
  // Reads the end of the text. Adds a call with complete arguments to `pieces`, even if its end marker is
  // missing. Returns `ended` or `invalid`.
  virtual State finish(Ending ending, MessagePieces& pieces) = 0;
  // Whether a call has begun and is incomplete.
  virtual bool is_in_call() const = 0;
  // After `ended`: the last part of the text that was read, if it does not belong to the calls.
  virtual std::string rest() const { return {}; }
};

enum class JsonCalls : std::uint8_t {
  any,     // {"name": "f", "arguments": {...}}, with any other members
  strict,  // an object with unknown members is not a call
  keyed,   // {"f": {...}}
};

// Reads a JSON object, or a list of objects, whose members may be nested in an object `function`. The name
// may be called `tool_name`. The arguments may be called `parameters`, may be a text, or may be missing. The
// tools must outlive the reader.
std::unique_ptr<CallReader> make_json_reader(const ToolSet& tools, JsonCalls form);

// Reads a header, from which `name_in` extracts the tool's name, and a JSON object with the arguments. If one
// of `ends` follows the header, there are no arguments.
using NameIn = std::string_view (*)(std::string_view header);
std::unique_ptr<CallReader> make_headed_reader(const ToolSet& tools, NameIn name_in,
                                               std::vector<std::string> ends);

// Gemma's notation, up to `end`: call:NAME{key:<escape>text<escape>,other:[1,2]}, or with <|"|> for <escape>.
std::unique_ptr<CallReader> make_escaped_reader(const ToolSet& tools, std::string end);

// Reads calls in Python's notation, one or a list: [NAME(key="text", other=[1, None])]. A list of objects is
// read as JSON calls.
std::unique_ptr<CallReader> make_pythonic_reader(const ToolSet& tools, JsonCalls json);

// Reads a call in tags. `begins`: the texts that precede calls. `end`: the text after the last call.
std::unique_ptr<CallReader> make_tag_reader(const ToolSet& tools, const TagNotation& notation,
                                            std::vector<std::string> begins, std::string end);

}  // namespace tp
