#pragma once

#include "launch/hub/hub_client.h"
#include "launch/hub/hub_file.h"

#include <string>

namespace tp {

// The files of a repository at a branch, tag or commit.
//
// There are two kinds of requests. /api/models/REPOSITORY/revision/REVISION returns a revision's commit.
// /api/models/REPOSITORY/tree/COMMIT lists this commit's files, page by page, so the list is complete and
// consistent. (The former also lists files, but omits some in large repositories.)
//
// Throws DownloadError, also for a hostile list: names that lead out of the folder, impossible sizes, endless
// pages.
HubListing list_repository(HubClient& client, const std::string& repository, const std::string& revision);

}  // namespace tp
