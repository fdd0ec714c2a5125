#pragma once

namespace CLI {
class App;
}

namespace tp {

// Adds `tp-infer chat`: a conversation with a model. `status` becomes the exit status.
void add_chat_command(CLI::App& app, int& status);

}  // namespace tp
