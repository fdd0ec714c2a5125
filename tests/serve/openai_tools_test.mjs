// Tools and thinking through the clients that OpenAI and Anthropic publish; see openai_client_test.mjs. The model
// follows a script.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Anthropic, collect, KEY, OpenAI, runTests, startServer } from './client_test.mjs';

const [program, mpirun, writeModel] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'tp-infer-tools-'));
execFileSync(writeModel, [folder]);
const server = await startServer(program, mpirun, folder, ['--model', folder, '--model-name', 'scripted']);
const openai = new OpenAI({baseURL: server.baseURL, apiKey: KEY, maxRetries: 0});

const model = 'scripted';
const parameters = {type: 'object', properties: {city: {type: 'string'}, days: {type: 'integer'}}, required: ['city']};
const tools = ['get_weather', 'get_time'].map((name) => ({type: 'function', function: {name, parameters}}));
const OSLO = {city: 'Oslo', days: 2};

function request(script, more = {}) {
  return {model, temperature: 0, tools, messages: [{role: 'user', content: 'The weather?'}],
          chat_template_kwargs: {script}, ...more};
}

const tests = {
  async 'gets calls of tools, whole'() {
    const {choices: [{message, finish_reason}]} = await openai.chat.completions.create(request('call'));
    assert.equal(finish_reason, 'tool_calls');
    assert.equal(message.tool_calls.length, 1);
    const [call] = message.tool_calls;
    assert.equal(call.type, 'function');
    assert.equal(call.function.name, 'get_weather');
    assert.deepEqual(JSON.parse(call.function.arguments), OSLO);
    assert.equal(message.reasoning_content, 'I should look it up.');
    assert.equal(message.content, 'Let me see.');
  },

  async 'gets calls of tools as a stream'() {
    const runner = openai.chat.completions.stream(request('two'));
    const done = [];
    runner.on('tool_calls.function.arguments.done', ({name, arguments: text}) => done.push([name, JSON.parse(text)]));
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices[0].finish_reason, 'tool_calls');
    assert.deepEqual(done, [['get_weather', {city: 'Rome'}], ['get_time', {}]]);
    assert.deepEqual(final.choices[0].message.tool_calls.map(({function: {name}}) => name), ['get_weather', 'get_time']);
  },

  async 'runs tools and gives their results back'() {
    const asked = [];
    const weather = {type: 'function', function: {name: 'get_weather', parameters, parse: JSON.parse,
                                                  function: (input) => { asked.push(input); return 'sunny'; }}};
    const runner = openai.chat.completions.runTools({...request('call'), tools: [weather]}, {maxChatCompletions: 1});
    await runner.done();
    assert.deepEqual(asked, [OSLO]);
    const {choices: [{message}]} = await openai.chat.completions.create(
        {...request('plain'), messages: runner.messages});
    assert.equal(message.content, 'Hello there.');
  },

  async 'bounds thinking'() {
    const {choices: [{message}]} = await openai.chat.completions.create(request('call', {max_thinking_tokens: 2}));
    assert.equal(message.reasoning_content, 'I should');
    assert.equal(message.tool_calls.length, 1);
  },

  // Without constraints, the model writes two days.
  async 'gets calls that it forces, and that fit their schemas'() {
    const held = {...parameters, properties: {city: {enum: ['Oslo', 'Rome']}, days: {const: 1}}, required: ['city', 'days'],
                  additionalProperties: false};
    const tool = (more) => ({type: 'function', function: {name: 'get_weather', parameters: held, ...more}});
    const named = {type: 'function', function: {name: 'get_weather'}};
    for (const more of [{tools: [tool()], tool_choice: 'required'}, {tools: [tool()], tool_choice: named},
                        {tools: [tool({strict: true})]}]) {
      const {choices: [{message}]} = await openai.chat.completions.create(request('call', more));
      assert.deepEqual(message.tool_calls.map(({function: {arguments: text}}) => JSON.parse(text)), [{city: 'Oslo', days: 1}]);
      const {choices: [final]} = await openai.chat.completions.stream(request('call', more)).finalChatCompletion();
      assert.deepEqual(JSON.parse(final.message.tool_calls[0].function.arguments), {city: 'Oslo', days: 1});
    }
    await assert.rejects(openai.chat.completions.create(request('call', {tools: [], tool_choice: 'required'})),
                         ({status, param}) => status === 400 && param === 'tool_choice');
  },

  async 'gets items of responses'() {
    const functions = tools.map(({function: tool}) => ({type: 'function', strict: false, ...tool}));
    const body = {model, input: 'The weather?', instructions: 'Be short.', tools: functions, temperature: 0,
                  chat_template_kwargs: {script: 'call'}};
    const whole = await openai.responses.create(body);
    assert.equal(whole.instructions, 'Be short.');
    assert.deepEqual(whole.tools, functions);
    assert.deepEqual(whole.output.map(({type}) => type), ['reasoning', 'message', 'function_call']);
    assert.deepEqual(JSON.parse(whole.output[2].arguments), OSLO);
    const final = await openai.responses.stream(body).finalResponse();
    assert.deepEqual(final.output.map(({type}) => type), ['reasoning', 'message', 'function_call']);
    assert.equal(final.output_text, 'Let me see.');
    assert.deepEqual(JSON.parse(final.output[2].arguments), OSLO);
    const events = await collect(await openai.responses.create({...body, stream: true}));
    assert.deepEqual(events.map(({sequence_number}) => sequence_number), events.map((_, index) => index));
  },
};

if (Anthropic) {
  const anthropic = new Anthropic({baseURL: server.baseURL.replace(/\/v1$/, ''), apiKey: KEY, maxRetries: 0});
  const body = {model, max_tokens: 200, temperature: 0, messages: [{role: 'user', content: 'The weather?'}],
                tools: tools.map(({function: {name}}) => ({name, input_schema: parameters})),
                chat_template_kwargs: {script: 'call'}};
  const shown = ({content, stop_reason}) => [stop_reason, ...content.map(
      ({type, text, thinking, name, input}) => [type, text ?? thinking ?? name, input])];
  tests['gets blocks of messages, whole and as a stream'] = async () => {
    const expected = ['tool_use', ['thinking', 'I should look it up.', undefined], ['text', 'Let me see.', undefined],
                      ['tool_use', 'get_weather', OSLO]];
    assert.deepEqual(shown(await anthropic.messages.create(body)), expected);
    assert.deepEqual(shown(await anthropic.messages.stream(body).finalMessage()), expected);
    const brief = await anthropic.messages.create({...body, thinking: {type: 'enabled', budget_tokens: 2}});
    assert.equal(brief.content[0].thinking, 'I should');
  };
}

const status = await runTests(tests, server);
rmSync(folder, {recursive: true});
process.exit(status);
