// Answers of the mock server.

export const STORY = `One rainy morning a white hen named Bella found that the gate of her garden stood open. She looked at the road, and the road looked at her. "Only as far as the bridge," she said to nobody, and went.

At the bridge sat an old dog who had lost his hat. "It blew into the river," he said, "and I cannot swim." Bella could not swim either, but she could wait, and so they waited together until the hat came round the bend on a raft of leaves.

They carried it home between them. It was wet, and too large for the hen and too small for the dog, so they hung it on the gate, where it has kept the rain off the latch ever since.
`;

export const HOSTILE = `Here is <img src="x" onerror="window.harmed = 1"> and <script>window.harmed = 2</script>.

[click](javascript:window.harmed=3) [data](data:text/html,<script>window.harmed=4</script>) [tab](java\tscript:window.harmed=5) [vb](vbscript:x) [file](file:///etc/passwd)

![picture](https://example.invalid/track.png?q=secret) and ![p](javascript:window.harmed=6)

<a href="javascript:window.harmed=7" onclick="window.harmed=8">x</a> <javascript:window.harmed=9>

[good](https://example.org/a_b_c "title") <https://example.org/> https://example.org/path. [mail](mailto:someone@example.org)

| <b onmouseover="window.harmed=10">x</b> | [y](javascript:window.harmed=11) |
| --- | --- |
| \`<script>\` | **<iframe src="javascript:window.harmed=12">** |

\`\`\`html"><script>window.harmed=13</script>
<script>window.harmed = 14</script>
\`\`\`

$<img src=x onerror=window.harmed=16>$ $\\text{<script>window.harmed=17</script>}$ \\(\\href{javascript:window.harmed=18}{x}\\)

\\[
\\class{x" onload="window.harmed=19}{<iframe src="javascript:window.harmed=20">}
\\]

<style>body { display: none }</style> <svg onload="window.harmed=15"></svg>
`;

export const MARKDOWN = `Tensor parallelism splits **every layer** over the ranks. Each rank computes with *its own slice* and the results are summed.

## What a rank owns

1. Its attention heads, with the rows of \`o_proj\` that belong to them.
2. Its columns of the feed-forward layers:
   - \`gate_proj\` and \`up_proj\` are column-parallel,
   - \`down_proj\` is row-parallel.
3. Its part of the vocabulary.

> Two all-reduces in each block combine the partial sums.

| Layer | Split by | Communication |
| :--- | :--- | ---: |
| attention | heads | 1 all-reduce |
| feed-forward | columns, then rows | 1 all-reduce |
| LM head | vocabulary | candidates only |

\`\`\`python
def all_reduce(parts: list[list[float]]) -> list[float]:
    """The sum over ranks, element by element."""
    return [sum(column) for column in zip(*parts)]
\`\`\`

## The sum

Each rank $r$ has its columns of the weights, so that the partial sums $W_r x_r$ of $R$ ranks add up:

\\[
y = \\sum_{r=0}^{R-1} W_r x_r, \\qquad
\\text{softmax}(z)_i = \\frac{e^{z_i}}{\\sum_j e^{z_j}}
\\]

More on this at [the project's page](https://example.org/).
`;
