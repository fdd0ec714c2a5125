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
    ended,    // what follows is no part of the calls
    invalid,  // this is none; a call that has begun is not complete
  };

  virtual ~CallReader() = default;

  // Reads the next byte, and adds what it completes to `pieces`.
  virtual State push(char byte, MessagePieces& pieces) = 0;
  // No more text comes. Adds a call whose arguments are complete to `pieces`, even if its end marker is
  // missing; returns `ended` or `invalid`.
  virtual State finish(Ending ending, MessagePieces& pieces) = 0;
  // Whether a call has begun and is not complete.
  virtual bool is_in_call() const = 0;
  // After `ended`: the end of the text that was read, if it is no part of the calls.
  virtual std::string rest() const { return {}; }
};

enum class JsonCalls : std::uint8_t {
  any,     // {"name": "f", "arguments": {...}}, with any other members
  strict,  // an object with unknown members is no call
  keyed,   // {"f": {...}}
};

// A JSON object, or a list of them, whose members may be in an object `function`. The name may be called
// `tool_name`; the arguments may be called `parameters`, be a text, or be missing. The tools must outlive the
// reader.
std::unique_ptr<CallReader> make_json_reader(const ToolSet& tools, JsonCalls form);

// A header, from which `name_in` takes the tool's name, and a JSON object with the arguments. If one of
// `ends` comes in place of the object, there are no arguments.
using NameIn = std::string_view (*)(std::string_view header);
std::unique_ptr<CallReader> make_headed_reader(const ToolSet& tools, NameIn name_in,
                                               std::vector<std::string> ends);

// Gemma's notation, up to `end`: call:NAME{key:<escape>text<escape>,other:[1,2]}, or with <|"|> for <escape>.
std::unique_ptr<CallReader> make_escaped_reader(const ToolSet& tools, std::string end);

// A call in tags. `begins` are the texts before calls, `end` is the text after the last one.
std::unique_ptr<CallReader> make_tag_reader(const ToolSet& tools, const TagNotation& notation,
                                            std::vector<std::string> begins, std::string end);

}  // namespace tp
