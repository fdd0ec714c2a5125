// Drafters as GGUF files, like those of llama.cpp's converter.
#pragma once

#include "tests/reference/drafter_fixture.h"

#include <filesystem>

namespace tp::test {

// Writes the drafter of a fixture, of EAGLE-3 or DFlash, as `file`. Files lack drafters' tables that the
// checkpoint lacks, and have the target's tokens.
void write_gguf_drafter(const reference::DrafterFixture& fixture, const std::filesystem::path& file);

}  // namespace tp::test
