// The subcommands of the program: each is a file that registers itself.
//
//   static const Subcommand kRegistered(Subcommand::Place::generate, add);
#pragma once

#include <cstdint>

namespace CLI {
class App;
}

namespace tp {

class Subcommand {
 public:
  // Adds it to the app. What it ends with goes to `status`, which lives as long as the app.
  using Add = void (*)(CLI::App& app, int& status);

  // The order in --help.
  enum class Place : std::uint8_t {
    generate,
    chat,
    serve,
    render_chat,
    embed,
    rank,
    classify,
    fill_mask,
    logits,
    hidden,
    perplexity,
    tokenize,
    detokenize,
    download,
    quantize,
    inspect,
    plan,
    bench,
  };

  Subcommand(Place place, Add add);

  // Adds all that are linked into the program.
  static void add_all(CLI::App& app, int& status);
};

}  // namespace tp
