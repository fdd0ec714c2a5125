// The settings that /set changes within a conversation.
#pragma once

#include "launch/options/sampling_flags.h"

#include <string>
#include <vector>

namespace tp {

// The names of all settings, which are those of the options without dashes: "temperature".
std::vector<std::string> setting_names();

// Changes the setting that `text` names, as in "temperature 0.2". Throws RequestError if there is no such
// setting, or if the value doesn't fit; then nothing changes.
void change_setting(SamplingFlags& flags, const std::string& text);

}  // namespace tp
