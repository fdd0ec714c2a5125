// A server on two ranks, used by the clients that OpenAI and Anthropic publish: they validate replies, and programs rely
// on their types.
//   npm install openai @anthropic-ai/sdk
//   TP_NODE_MODULES=node_modules node tests/serve/openai_client_test.mjs build/bin/tp-infer [mpirun]
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Anthropic, collect, KEY, OpenAI, runTests, startServer } from './client_test.mjs';

const [program, mpirun = 'mpirun'] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'tp-infer-openai-'));
const template = join(folder, 'template.jinja');
writeFileSync(template,
              '{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}' +
                  '{% if add_generation_prompt %}assistant:{% endif %}');
const server = await startServer(program, mpirun, folder, ['--chat-template', template]);
const {baseURL} = server;
const openai = new OpenAI({baseURL, apiKey: KEY, maxRetries: 0});
const model = 'demo';
const messages = [{role: 'system', content: 'Be kind.'}, {role: 'user', content: 'Tell me a story'}];
const greedy = {model, temperature: 0};

const textOf = (chunks) => chunks.flatMap((chunk) => chunk.choices).map((choice) => choice.delta.content ?? '').join('');

async function isIdle() {
  for (let i = 0; i < 300; ++i) {
    const response = await fetch(`${baseURL}/status`, {headers: {authorization: `Bearer ${KEY}`}});
    const {requests} = await response.json();
    if (requests.running === 0 && requests.waiting === 0) return true;
    await sleep(50);
  }
  return false;
}

const tests = {
  async 'lists its models'() {
    const models = await collect(openai.models.list());
    assert.deepEqual(models.map(({id, object}) => ({id, object})), [{id: model, object: 'model'}]);
    assert.equal((await openai.models.retrieve(model)).id, model);
  },

  async 'chats, whole and as a stream'() {
    const request = {...greedy, messages, max_completion_tokens: 12};
    const whole = await openai.chat.completions.create(request);
    const [choice] = whole.choices;
    assert.equal(whole.object, 'chat.completion');
    assert.equal(choice.message.role, 'assistant');
    assert.equal(choice.finish_reason, 'length');
    assert.equal(whole.usage.completion_tokens, 12);
    assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + 12);
    assert.equal(whole.usage.prompt_tokens_details.cached_tokens % 1, 0);

    const stream = await openai.chat.completions.create(
        {...request, stream: true, stream_options: {include_usage: true}});
    const chunks = await collect(stream);
    assert.equal(textOf(chunks), choice.message.content);
    assert.equal(chunks[0].choices[0].delta.role, 'assistant');
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.equal(chunks.at(-1).usage.completion_tokens, 12);
    assert.deepEqual(chunks.map((chunk) => chunk.choices[0]?.finish_reason).filter((reason) => reason), ['length']);
    const bare = await collect(await openai.chat.completions.create({...request, stream: true}));
    assert.ok(bare.every((chunk) => chunk.choices.length === 1 && !chunk.usage));
  },

  async 'fits the helper that puts a stream together'() {
    const request = {...greedy, messages, max_tokens: 8};
    const whole = await openai.chat.completions.create(request);
    const runner = openai.chat.completions.stream({...request, stream_options: {include_usage: true}});
    let text = '';
    runner.on('content', (delta) => { text += delta; });
    const final = await runner.finalChatCompletion();
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(final.choices[0].message.content, text);
    assert.equal(final.choices[0].finish_reason, 'length');
    assert.equal((await runner.totalUsage()).completion_tokens, 8);
  },

  async 'completes texts, whole and as a stream'() {
    const request = {...greedy, prompt: 'Once upon a time', max_tokens: 10};
    const whole = await openai.completions.create(request);
    assert.equal(whole.object, 'text_completion');
    assert.ok(whole.choices[0].text.length > 0);
    const chunks = await collect(await openai.completions.create({...request, stream: true}));
    assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(''), whole.choices[0].text);
    const several = await openai.completions.create({...request, prompt: ['Once', 'The'], echo: true});
    assert.deepEqual(several.choices.map(({index}) => index), [0, 1]);
    assert.ok(several.choices[0].text.startsWith('Once') && several.choices[1].text.startsWith('The'));
  },

  async 'gives log-probabilities in the format of either API'() {
    const chat = await openai.chat.completions.create(
        {...greedy, messages, max_tokens: 4, logprobs: true, top_logprobs: 2});
    const {content} = chat.choices[0].logprobs;
    assert.equal(content.length, 4);
    assert.equal(content.map(({bytes}) => Buffer.from(bytes).toString()).join(''), chat.choices[0].message.content);
    for (const token of content) {
      assert.equal(token.top_logprobs.length, 2);
      assert.ok(token.logprob <= 0 && token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob);
    }
    const text = await openai.completions.create({...greedy, prompt: 'Once', max_tokens: 4, logprobs: 2});
    const {tokens, token_logprobs, top_logprobs, text_offset} = text.choices[0].logprobs;
    assert.equal(tokens.join(''), text.choices[0].text);
    assert.deepEqual([token_logprobs.length, top_logprobs.length, text_offset.length], [4, 4, 4]);
  },

  async 'gives n answers'() {
    const request = {model, messages, max_tokens: 6, n: 3, seed: 7, temperature: 1};
    const whole = await openai.chat.completions.create(request);
    assert.deepEqual(whole.choices.map(({index}) => index), [0, 1, 2]);
    const chunks = await collect(await openai.chat.completions.create({...request, stream: true}));
    for (const {index, message} of whole.choices) {
      const own = chunks.filter((chunk) => chunk.choices[0].index === index);
      assert.equal(textOf(own), message.content);
    }
  },

  async 'stops at a text, and takes what it does not know'() {
    const text = (await openai.completions.create({...greedy, prompt: 'Once upon a time', max_tokens: 20})).choices[0].text;
    const stop = text.trim().split(' ')[2];
    const stopped = await openai.completions.create(
        {...greedy, prompt: 'Once upon a time', max_tokens: 20, stop: [stop], user: 'me', metadata: {a: 'b'}, store: false});
    assert.equal(stopped.choices[0].finish_reason, 'stop');
    assert.equal(stopped.choices[0].text, text.slice(0, text.indexOf(stop)));
  },

  async 'is idle after a stream was aborted'() {
    const stream = await openai.chat.completions.create(
        {...greedy, messages, max_tokens: 400, stream: true, ignore_eos: true});
    let count = 0;
    for await (const _ of stream) {
      if (++count === 5) stream.controller.abort();
    }
    assert.ok(await isIdle());
    const aborter = new AbortController();
    const whole = openai.chat.completions.create({...greedy, messages, max_tokens: 400, ignore_eos: true},
                                                 {signal: aborter.signal});
    setTimeout(() => aborter.abort(), 100);
    await assert.rejects(whole, OpenAI.APIUserAbortError);
    assert.ok(await isIdle());
  },

  async 'reports errors as the classes of the client'() {
    const refused = async (promise, type, more) => {
      const error = await promise.then(() => assert.fail('it was answered'), (reason) => reason);
      assert.ok(error instanceof type, `${error}`);
      for (const [name, value] of Object.entries(more)) assert.equal(error[name], value, `${name} of ${error}`);
    };
    await refused(openai.chat.completions.create({...greedy, messages, top_p: 2}), OpenAI.BadRequestError,
                  {status: 400, param: 'top_p', type: 'invalid_request_error'});
    await refused(openai.chat.completions.create({...greedy, messages: []}), OpenAI.BadRequestError, {param: 'messages'});
    await refused(openai.completions.create({...greedy, prompt: 'word '.repeat(2000)}), OpenAI.BadRequestError,
                  {code: 'context_length_exceeded'});
    await refused(openai.chat.completions.create({...greedy, messages, model: 'another'}), OpenAI.NotFoundError,
                  {status: 404});
    await refused(openai.models.retrieve('another'), OpenAI.NotFoundError, {status: 404});
    const stranger = new OpenAI({baseURL, apiKey: 'wrong', maxRetries: 0});
    await refused(stranger.chat.completions.create({...greedy, messages}), OpenAI.AuthenticationError, {status: 401});
  },

  async 'answers with responses, whole and as a stream'() {
    const request = {model, instructions: 'Be kind.', input: 'Tell me a story', temperature: 0, max_output_tokens: 12};
    const whole = await openai.responses.create(request);
    assert.equal(whole.object, 'response');
    assert.equal(whole.status, 'incomplete');
    assert.equal(whole.incomplete_details.reason, 'max_output_tokens');
    assert.equal(whole.usage.output_tokens, 12);
    assert.ok(whole.output_text.length > 0);
    const events = await collect(await openai.responses.create({...request, stream: true}));
    const types = events.map(({type}) => type);
    assert.equal(types[0], 'response.created');
    assert.equal(types.at(-1), 'response.incomplete');
    assert.equal(events.filter(({type}) => type === 'response.output_text.delta').map(({delta}) => delta).join(''),
                 whole.output_text);
    assert.deepEqual(events.map(({sequence_number}) => sequence_number), events.map((_, index) => index));
    const final = await openai.responses.stream(request).finalResponse();
    assert.equal(final.output_text, whole.output_text);
  },
};

if (Anthropic) {
  const anthropic = new Anthropic({baseURL: baseURL.replace(/\/v1$/, ''), apiKey: KEY, maxRetries: 0});
  const request = {model, system: 'Be kind.', messages: [messages[1]], max_tokens: 10, temperature: 0};
  Object.assign(tests, {
    async 'answers with Anthropic\'s messages, whole and as a stream'() {
      const whole = await anthropic.messages.create(request);
      assert.equal(whole.type, 'message');
      assert.equal(whole.stop_reason, 'max_tokens');
      assert.equal(whole.usage.output_tokens, 10);
      const final = await anthropic.messages.stream(request).finalMessage();
      assert.deepEqual(final.content.map(({type, text}) => ({type, text})),
                       whole.content.map(({type, text}) => ({type, text})));
      assert.equal(final.usage.output_tokens, 10);
      assert.equal((await anthropic.messages.countTokens({model, system: request.system, messages: request.messages}))
                       .input_tokens, whole.usage.input_tokens + (whole.usage.cache_read_input_tokens ?? 0));
    },
    async 'reports errors as the classes of Anthropic\'s client'() {
      await assert.rejects(anthropic.messages.create({...request, max_tokens: -1}), Anthropic.BadRequestError);
      await assert.rejects(anthropic.messages.create({...request, model: 'another'}), Anthropic.NotFoundError);
    },
  });
}

const status = await runTests(tests, server);
rmSync(folder, {recursive: true});
process.exit(status);
