#include "runtime/gateway/config.h"

#include "tests/model/weights/checkpoint_files.h"
#include "tp/error.h"

#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_gateway_config(text, "gateway.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// A list of models, each with a command.
std::string models(const std::string& members) {
  return R"({"models": [{"commands": [["a"]], )" + members + "}]}";
}

TEST(GatewayConfig, HasCommandsInOrder) {
  const GatewayConfig config =
      parse_gateway_config(R"({"commands": [["mpirun", "-np", "3", "x"], ["x"]]})", "gateway.json");
  ASSERT_EQ(config.size(), 1U);
  EXPECT_EQ(config[0].commands, (GatewayCommands{{"mpirun", "-np", "3", "x"}, {"x"}}));
  EXPECT_EQ(config[0].name, "");
  EXPECT_EQ(config[0].start, ModelStart::always);
  EXPECT_EQ(config, config_of(config[0].commands));
}

TEST(GatewayConfig, HasModels) {
  const GatewayConfig config = parse_gateway_config(R"({"models": [
      {"name": "a", "aliases": ["b", "c"], "commands": [["x"]], "start": "always", "group": "g"},
      {"name": "d", "commands": [["y"], ["z"]], "group": "g", "idle_stop": 0.5, "switch_after": 7}]})",
                                                    "gateway.json");
  ASSERT_EQ(config.size(), 2U);
  EXPECT_EQ(config[0].start, ModelStart::always);
  EXPECT_EQ(config[0].switch_after, ModelEntry::Seconds(60));
  EXPECT_EQ(config[0].idle_stop, std::nullopt);
  EXPECT_EQ(config[1].start, ModelStart::on_demand);
  EXPECT_EQ(config[1].group, "g");
  EXPECT_EQ(config[1].idle_stop, ModelEntry::Seconds(0.5));
  EXPECT_EQ(config[1].switch_after, ModelEntry::Seconds(7));
  EXPECT_EQ(config[1].commands.size(), 2U);
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(config[0].has_name(name)) << name;
  EXPECT_FALSE(config[0].has_name("d"));
}

// The server must accept every name that the gateway sends it.
TEST(GatewayConfig, PassesServersTheirNames) {
  const ModelEntry entry{
      .name = "a",
      .aliases = {"b", "c"},
      .commands = {{"tp-infer", "serve", "--model-name", "b", "--model", "DIR"}, {"script"}}};
  EXPECT_EQ(entry.named_commands(), (GatewayCommands{{"tp-infer", "serve", "--model-name", "b", "--model",
                                                      "DIR", "--model-name", "a", "--model-name", "c"},
                                                     {"script"}}));
  EXPECT_EQ(config_of({{"tp-infer", "serve"}})[0].named_commands(), (GatewayCommands{{"tp-infer", "serve"}}));
}

// A script's own arguments say nothing about its server.
TEST(GatewayConfig, KnowsTheAdaptersOfItsServers) {
  const std::string commands = R"([["tp-infer", "serve", "--lora", "x=/a=b", "--lora=y=/c:0.5", "--lora"],
                                   ["tp-infer", "serve", "--lora", "x=/a=b", "--lora-x", "q=/d"],
                                   ["script", "--lora", "z=/c"]])";
  const GatewayConfig config =
      parse_gateway_config(R"({"models": [{"name": "a", "commands": )" + commands + "}]}", "gateway.json");
  EXPECT_EQ(config[0].adapters, (std::vector<std::string>{"x", "y"}));
  for (const char* name : {"a", "x", "y"}) EXPECT_TRUE(config[0].has_name(name)) << name;
  EXPECT_FALSE(config[0].has_name("z"));
  EXPECT_FALSE(config[0].has_adapter("a"));
  EXPECT_EQ(error_of(R"({"models": [{"name": "x", "commands": [["s"]]}, {"name": "a", "commands": )" +
                     commands + "}]}"),
            "gateway.json: expected each name of a model, alias or adapter once, found `x` twice");
}

TEST(GatewayConfig, RefusesWhatIsNoListOfCommands) {
  EXPECT_EQ(error_of(R"({"commands": [["a"]], "command": 1})"),
            "gateway.json: expected only the member `models` or `commands`, found `command`");
  EXPECT_EQ(error_of(R"({"commands": [["a", 1]]})"), "gateway.json: expected a text as an argument, found 1");
  for (const char* text :
       {"", "[]", "{}", R"({"commands": []})", R"({"commands": [[]]})", R"({"commands": ["a"]})",
        R"({"commands": [[""]]})", R"({"commands": [["a\u0000b"]]})"})
    EXPECT_TRUE(error_of(text).starts_with("gateway.json: expected ")) << text;
}

TEST(GatewayConfig, NamesThePlaceOfASyntaxError) {
  const std::string error = error_of("{\"commands\": [\n  [\"a\" \"b\"]]}");
  EXPECT_TRUE(error.starts_with("gateway.json: expected a JSON object (parse error at line 2, column "))
      << error;
  EXPECT_NE(error.find("expected a comma or ], found a text"), std::string::npos) << error;
}

TEST(GatewayConfig, IsAFile) {
  const test::TemporaryDirectory folder;
  EXPECT_EQ(read_gateway_config(folder.write("gateway.json", R"({"commands": [["a"]]})")).size(), 1U);
  const std::string error = test::error_of<ConfigError>([&] { read_gateway_config(folder.path()); });
  EXPECT_NE(error.find("of --config: expected a file, found a folder"), std::string::npos) << error;
  EXPECT_NE(test::error_of<ConfigError>([&] { read_gateway_config(folder.path() / "none"); }), "");
}

TEST(GatewayConfig, NamesTheModelOfAMistake) {
  EXPECT_EQ(error_of(models(R"("name": "a", "idle_stop": "5")")),
            "gateway.json: model `a`: expected seconds, 0 to 100000000, in `idle_stop`, found \"5\"");
  EXPECT_EQ(error_of(models(R"("name": "a", "start": "never")")),
            "gateway.json: model `a`: expected \"always\" or \"on_demand\" in `start`, found \"never\"");
  EXPECT_EQ(
      error_of(models(R"("name": "a", "idle_stop": 5, "start": "always")")),
      "gateway.json: model `a`: expected no `idle_stop` with \"start\": \"always\"; remove one of the two");
  for (const char* members :
       {R"("start": "always")", R"("name": "")", R"("name": 1)", R"("name": "a\nb")", R"("name": null)",
        R"("name": "a", "aliases": "b")", R"("name": "a", "aliases": [1])", R"("name": "a", "aliases": [""])",
        R"("name": "a", "group": "")", R"("name": "a", "group": 1)", R"("name": "a", "switch_after": -1)",
        R"("name": "a", "switch_after": 1e300)", R"("name": "a", "idle_stop": null)",
        R"("name": "a", "x": 1)", R"("name": "a", "commands": [])"})
    EXPECT_TRUE(error_of(models(members)).starts_with("gateway.json: ")) << members;
  for (const char* text : {R"({"models": []})", R"({"models": {}})", R"({"models": [1]})",
                           R"({"models": [{"name": "a"}]})", R"({"models": [], "commands": [["a"]]})"})
    EXPECT_TRUE(error_of(text).starts_with("gateway.json: ")) << text;
  EXPECT_NE(error_of(models("\"name\": \"" + std::string(257, 'a') + "\"")), "");
}

TEST(GatewayConfig, RefusesModelsThatDisagree) {
  const auto two = [](const std::string& first, const std::string& second) {
    return error_of(R"({"models": [{"commands": [["x"]], )" + first + R"(}, {"commands": [["y"]], )" +
                    second + "}]}");
  };
  EXPECT_EQ(two(R"("name": "a")", R"("name": "b")"), "");
  EXPECT_EQ(two(R"("name": "a")", R"("name": "a")"),
            "gateway.json: expected each name of a model, alias or adapter once, found `a` twice");
  EXPECT_EQ(two(R"("name": "a")", R"("name": "b", "aliases": ["a"])"),
            "gateway.json: expected each name of a model, alias or adapter once, found `a` twice");
  EXPECT_EQ(
      two(R"("name": "a", "start": "always", "group": "g")",
          R"("name": "b", "start": "always", "group": "g")"),
      "gateway.json: expected at most one model with \"start\": \"always\" in the group `g`, found `a` and "
      "`b`, which cannot run at the same time");
  EXPECT_EQ(two(R"("name": "a", "start": "always", "group": "g")",
                R"("name": "b", "start": "always", "group": "h")"),
            "");
}

TEST(GatewayConfig, MayBeNestedDeeply) {
  const std::string list = std::string(200000, '[') + std::string(200000, ']');
  EXPECT_NE(error_of("{\"models\":[{\"name\":" + list + "}]}"), "");
}

TEST(GatewayConfig, RunsTheServer) {
  for (const GatewayCommands& commands :
       {GatewayCommands{{"tp-infer", "serve", "--model", "serve"}},
        GatewayCommands{{"mpirun", "-np", "4", "/usr/bin/tp-infer", "serve"}},
        GatewayCommands{{"./start.sh"}}, GatewayCommands{{"sh", "-c", "exec tp-infer serve"}}})
    EXPECT_NO_THROW(require_serve(config_of(commands))) << commands.front().front();
  for (const GatewayCommands& commands :
       {GatewayCommands{{"tp-infer", "generate", "--prompt", "x"}},
        GatewayCommands{{"mpirun", "-np", "4", "/usr/bin/tp-infer"}},
        GatewayCommands{{"tp-infer", "serve"}, {"serve", "tp-infer", "chat"}}})
    EXPECT_THROW(require_serve(config_of(commands)), ConfigError) << commands.front().front();
}

TEST(GatewayConfig, LeavesThePortToTheGateway) {
  for (const GatewayCommands& commands :
       {GatewayCommands{{"tp-infer", "serve", "--port", "8080"}},
        GatewayCommands{{"tp-infer", "serve", "--host", "0.0.0.0", "--port", "8080"}},
        GatewayCommands{{"tp-infer", "serve"}, {"mpirun", "-np", "2", "tp-infer", "serve", "--port=8080"}}})
    EXPECT_THROW(require_other_port(config_of(commands), "127.0.0.1", 8080), ConfigError)
        << commands.front().back();
  for (const GatewayCommands& commands :
       {GatewayCommands{{"tp-infer", "serve", "--port", "8081"}},
        GatewayCommands{{"tp-infer", "serve", "--model", "8080", "--port"}},
        GatewayCommands{{"./start.sh", "--port", "8080"}},
        GatewayCommands{{"tp-infer", "serve", "--host", "10.0.0.1", "--port", "8080"}},
        GatewayCommands{{"mpirun", "--hostfile=hosts", "tp-infer", "serve", "--port", "8080"}},
        GatewayCommands{{"mpirun", "--host", "node1", "tp-infer", "serve", "--port", "8080"}},
        GatewayCommands{{"/usr/bin/srun", "tp-infer", "serve", "--port", "8080"}}})
    EXPECT_NO_THROW(require_other_port(config_of(commands), "127.0.0.1", 8080)) << commands.front().back();
  EXPECT_NO_THROW(require_other_port(config_of({{"tp-infer", "serve", "--port", "0"}}), "127.0.0.1", 0));
}

}  // namespace
}  // namespace tp
