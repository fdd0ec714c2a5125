// Formats the results as a Markdown table, with the machine, the date and the command above it.
import {readFileSync} from "node:fs";
import {cpus} from "node:os";

import {cellText, markdownTable} from "./statistics.mjs";

const kFlags = ["avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_bf16", "amx_int8"];

export function thisMachine() {
  const present = new Set(/^flags\s*:(.*)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1].split(" "));
  return {cpu: cpus()[0].model.trim(), cores: cpus().length, flags: kFlags.filter((flag) => present.has(flag))};
}

export const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

// Describes the machine, the date, and both programs with their threads.
export function aboutPrograms({machine, date, ours, peer}) {
  return `${machine.cpu}, ${counted(machine.cores, "core")} (${machine.flags.join(", ")}), ${date}. tp-infer ${ours.version} on ` +
      `${counted(ours.ranks, "rank")} with ${counted(ours.threads, "thread")} each; ${peer.name} ${peer.version} with ` +
      `${counted(peer.threads, "thread")}.`;
}

export function markdownReport(report) {
  const {peer, pairs, command, results} = report;
  const columns = [...new Set(results.map(({column}) => column))];
  const types = [...new Set(results.map(({weights}) => weights))];
  const cell = (type, column) => cellText(results.find((one) => one.weights === type && one.column === column));
  const rows = types.map((type) => [type.toUpperCase(), ...columns.map((column) => cell(type, column))]);
  const table = markdownTable(["", ...columns.map((column) => `${column}, ${peer.name}`)], rows);
  return `${aboutPrograms(report)} Each number is tp-infer's tokens/s divided by ${peer.name}'s: the median of ` +
      `${counted(pairs, "pair")}${pairs < 5 ? "" : ", and its 90 % interval"}.\n\n\`\`\`sh\n${command}\n\`\`\`\n\n${table}`;
}
