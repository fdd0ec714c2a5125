#pragma once

#include "launch/hub/hub_client.h"
#include "launch/hub/hub_file.h"

#include <string>

namespace tp {

// The files of a repository at a branch, tag or commit.
//
// Two kinds of requests: /api/models/REPOSITORY/revision/REVISION says which commit a revision is, and
// /api/models/REPOSITORY/tree/COMMIT lists the files of exactly that commit, page by page, so that the list
// is complete and of one state. (The former lists files too, but leaves some out of large repositories.)
//
// Throws DownloadError, also for a list that no honest server would send: names that lead out of a folder,
// sizes that no disk has, endless pages.
HubListing list_repository(HubClient& client, const std::string& repository, const std::string& revision);

}  // namespace tp
