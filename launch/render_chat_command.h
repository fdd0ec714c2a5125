#pragma once

namespace CLI {
class App;
}

namespace tp {

// Adds `tp-infer render-chat`: prints what a model's chat template makes of messages.
void add_render_chat_command(CLI::App& app);

}  // namespace tp
