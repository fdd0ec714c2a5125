#include "launch/options/serve_flags.h"

#include "launch/common/message.h"
#include "launch/common/option_group.h"
#include "launch/options/model_path.h"
#include "launch/options/sampling_flags.h"
#include "launch/options/speculate_flag.h"
#include "model/files/parse_number.h"
#include "runtime/gateway/announcement.h"
#include "runtime/http/http_call.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::size_t kMaxSequences = 64;
constexpr std::chrono::milliseconds kStepTime(200);
constexpr std::size_t kRecordBytes = std::size_t{64}
                                     << 20;  // bytes of the gateway's records, in addition to bodies

void add_address_options(CLI::App& command, ServeFlags& flags) {
  const OptionGroup group(command, "Address and access");
  group.add("--host", flags.host, "ADDRESS", not_empty("an address"),
            "Address to listen on; 0.0.0.0 is all addresses of this machine");
  group.add("--port", flags.port, "N", whole_number(0, 65535), "Port to listen on; 0 chooses a free port");
  flags.access.add_to(group);
}

void add_load_options(CLI::App& command, ServeFlags& flags) {
  const OptionGroup group(command, "Load");
  EngineOptions& options = flags.engine.options;
  const auto set_step_time = [&options](const std::string& ms) {
    options.step_time = std::chrono::duration<double, std::milli>(parse_number<double>(ms).value_or(0.0));
  };
  group
      .add("--step-ms", set_step_time, "MS", number(),
           "Maximum milliseconds that prompts may add to a step while other requests generate; 0: no limit")
      ->default_str(fmt::format("{}", kStepTime.count()));
  group.add("--max-queue", options.max_queue, "N", whole_number(0),
            "Maximum requests that wait; further ones get status 429");
  group.add("--max-queue-tokens", options.max_queue_tokens, "N", whole_number(0),
            "Maximum prompt tokens that wait (default: no limit)");
  group.add("--drain-seconds", flags.drain_seconds, "SECONDS", whole_number(0, 86400),
            "Seconds that running requests get to finish after SIGTERM, SIGINT or SIGUSR1");
}

}  // namespace

ServeFlags::ServeFlags() {
  engine.options.step_time = kStepTime;
  engine.options.max_queue = 1024;
  engine.options.default_adapter = "";  // no default, because clients name the model or an adapter
}

void ServeFlags::add_to(CLI::App& command) {
  const OptionGroup group(command);
  engine.add_to(command);
  engine.add_causal_options_to(command);
  engine.add_task_option_to(command);
  engine.add_store_options_to(command);
  engine.add_batch_option_to(command, kMaxSequences);
  engine.add_unmask_cache_option_to(command);
  add_speculate_option(command, engine.options.speculation);
  group
      .add("--model-name", model_names, "NAME", not_empty("a name"),
           "The model's name for clients; may be given several times (default: the name of its folder "
           "or file)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  group.add_file("--chat-template,--template", template_file,
                 "A chat template (Jinja) to use instead of the model's");
  add_thinking_option(command, max_thinking_tokens, "Load");
  add_address_options(command, *this);
  host_option_ = command.get_option("--host");
  port_option_ = command.get_option("--port");
  add_load_options(command, *this);
  group.add_file("--pid-file", pid_file, "Write the process id of rank 0 to this file");
  group.add("--announce", announce, "URL", not_empty("a URL"),
            "Tell the gateway at this URL when the server is ready (default: the variable TP_ANNOUNCE, which "
            "tp-infer gateway sets)");
  command.add_flag("--log-json", log_json, "Log each request as a line of JSON");
  command.add_flag("--quiet", quiet, "Don't log requests");
}

ServeOptions ServeFlags::options() const {
  ServeOptions options;
  options.host = host;
  options.port = static_cast<std::uint16_t>(port);
  options.access = access.rules();
  options.read_keys = access.key_reader();
  options.model_names = model_names;
  if (options.model_names.empty()) options.model_names = {name_of_model(engine.options.model)};
  for (const AdapterOptions& adapter : engine.options.adapters) {
    require<ConfigError>(std::ranges::find(options.model_names, adapter.name) == options.model_names.end(),
                         "cannot serve the adapter {} of --lora: expected a name that differs from the "
                         "model's; change one of them (--model-name)",
                         adapter.name);
  }
  if (!gateway().empty()) listen_for_gateway(options);
  options.log_json = log_json;
  if (!quiet) options.log = [](const std::string& line) { print_message(line); };
  return options;
}

std::string ServeFlags::gateway() const {
  const char* const variable = std::getenv(kAnnounceVariable);
  return announce.empty() && variable != nullptr ? variable : announce;
}

// Without the options --host and --port, the server listens at an address that only the gateway knows.
void ServeFlags::listen_for_gateway(ServeOptions& options) const {
  const HttpUrl url = parse_http_url(gateway());
  options.gateway_secret = secret_in(url.path);
  options.limits.body_bytes += kRecordBytes;
  if (host_option_->count() == 0) options.host = local_address_towards(url);
  if (port_option_->count() == 0) options.port = 0;
}

}  // namespace tp
