// The program's subcommands. main.cc contains their table. Each function adds one subcommand to the app. A
// subcommand stores its exit status in `status`, which lives as long as the app.
#pragma once

namespace CLI {
class App;
}

namespace tp {

void add_generate_command(CLI::App& app, int& status);
void add_chat_command(CLI::App& app, int& status);
void add_serve_command(CLI::App& app, int& status);
void add_gateway_command(CLI::App& app, int& status);
void add_render_chat_command(CLI::App& app, int& status);
void add_embed_command(CLI::App& app, int& status);
void add_rank_command(CLI::App& app, int& status);
void add_classify_command(CLI::App& app, int& status);
void add_fill_mask_command(CLI::App& app, int& status);
void add_logits_command(CLI::App& app, int& status);
void add_hidden_command(CLI::App& app, int& status);
void add_perplexity_command(CLI::App& app, int& status);
void add_tokenize_command(CLI::App& app, int& status);
void add_detokenize_command(CLI::App& app, int& status);
void add_download_command(CLI::App& app, int& status);
void add_quantize_command(CLI::App& app, int& status);
void add_inspect_command(CLI::App& app, int& status);
void add_plan_command(CLI::App& app, int& status);
void add_bench_command(CLI::App& app, int& status);
void add_kv_store_command(CLI::App& app, int& status);

}  // namespace tp
