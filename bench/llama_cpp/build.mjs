// Builds the peer's programs from its sources, which are given by --source or come from npm's node-llama-cpp.
import {createHash} from "node:crypto";
import {existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync} from "node:fs";
import {basename, join, resolve} from "node:path";

import {fail, run, runLogged} from "./process.mjs";

const kPackage = "node-llama-cpp@3";
// Release is -O3; GGML_NATIVE is -march=native. The other options leave out what the programs don't need.
const kOptions = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF",
                  "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_BUILD_TESTS=OFF"];

// Unpacks the package's sources, which are a git bundle with one commit and without history. They stay in `folder`, so
// later runs need no network. Returns {source, version}.
function sourcesOfPackage(folder) {
  const source = join(folder, "llama.cpp");
  const archive = join(folder, "package");
  if (!existsSync(source)) {
    rmSync(archive, {recursive: true, force: true});
    mkdirSync(archive, {recursive: true});
    const advice = "install it, or give --source DIR, a folder with llama.cpp's sources";
    run(["npm", "pack", kPackage, "--silent", "--pack-destination", archive], advice);
    run(["tar", "-xzf", join(archive, readdirSync(archive)[0]), "-C", archive], advice);
    rmSync(`${source}.new`, {recursive: true, force: true});
    run(["git", "clone", "--quiet", join(archive, "package/llama/gitRelease.bundle"), `${source}.new`], advice);
    renameSync(`${source}.new`, source);
  }
  const read = (name) => JSON.parse(readFileSync(join(archive, "package", name), "utf8"));
  const version = `${read("llama/llama.cpp.info.json").tag} of node-llama-cpp ${read("package.json").version}`;
  return {source, version};
}

// A folder without .git may be inside a different repository, whose commit would be wrong.
function versionOf(source) {
  if (!existsSync(join(source, ".git"))) return "unknown version";
  return run(["git", "-C", source, "describe", "--tags", "--always", "--dirty"], "install git").trim();
}

function givenSources(folder) {
  const source = resolve(folder);
  if (!existsSync(join(source, "CMakeLists.txt"))) {
    fail(`--source ${folder}: expected the sources of llama.cpp or a fork, found no CMakeLists.txt; ` +
         "give the top folder of the sources");
  }
  return {source, version: versionOf(source)};
}

// Returns {name, version, programs}; `programs` contains the paths of `wanted` by name. `folder`: place of all build
// files.
export function buildPeer({source: given, folder, jobs}, wanted) {
  const {source, version} = given ? givenSources(given) : sourcesOfPackage(folder);
  const name = basename(source);
  const build = join(folder, `${name}-${createHash("sha1").update(source).digest("hex").slice(0, 8)}`);
  mkdirSync(build, {recursive: true});
  console.error(`building ${name} in ${build}`);
  runLogged([["cmake", "-S", source, "-B", build, ...kOptions],
             ["cmake", "--build", build, "--target", ...wanted, "-j", String(jobs)]],
            `${build}.log`, "install CMake");
  const programs = Object.fromEntries(wanted.map((program) => [program, join(build, "bin", program)]));
  for (const program of Object.values(programs)) {
    if (!existsSync(program)) fail(`${source}: expected a build to make ${program}, found none; see ${build}.log`);
  }
  return {name, version, programs};
}
