// The tools, resources and prompts that the scenarios of the server suite ask for, for both servers.

/** A red pixel. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
/** A wave file without samples. */
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=';

const text = (words) => ({ type: 'text', text: words });
const image = { type: 'image', data: PNG, mimeType: 'image/png' };
const embedded = (uri, mimeType, words) => ({
  type: 'resource',
  resource: { uri, mimeType, text: words },
});
const user = (content) => ({ role: 'user', content });
const one = (name) => ({ type: 'object', properties: { [name]: { type: 'string' } }, required: [name] });

export const pause = () => new Promise((done) => setTimeout(done, 50));

/** Tools that answer at once. */
export const simpleTools = {
  test_simple_text: () => [text('This is a simple text response for testing.')],
  test_image_content: () => [image],
  test_audio_content: () => [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }],
  test_embedded_resource: () => [
    embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.'),
  ],
  test_multiple_content_types: () => [
    text('Multiple content types test:'),
    image,
    embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
  ],
  json_schema_2020_12_tool: (args) => [text(JSON.stringify(args))],
  test_headers: (args) => [text(JSON.stringify(args))],
};

/** Input schemas of tools that take arguments. */
const schemas = {
  json_schema_2020_12_tool: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: {
      address: {
        $anchor: 'addressDef',
        type: 'object',
        properties: { street: { type: 'string' }, city: { type: 'string' } },
      },
    },
    properties: {
      name: { type: 'string' },
      address: { $ref: '#/$defs/address' },
      contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: { type: 'string' },
      email: { type: 'string' },
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  },
  test_headers: {
    type: 'object',
    properties: { region: { type: 'string', 'x-mcp-header': 'Region' } },
    required: ['region'],
  },
  test_sampling: one('prompt'),
  test_elicitation: one('message'),
};

/** Returns the list entries of tools. */
export const listTools = (names) =>
  names.map((name) => ({
    name,
    description: `The tool ${name} of the conformance suite`,
    inputSchema: schemas[name] ?? { type: 'object' },
  }));

export const failure = {
  isError: true,
  content: [text('This tool intentionally returns an error for testing')],
};

export const resources = [
  { uri: 'test://static-text', name: 'text', description: 'A text', mimeType: 'text/plain' },
  { uri: 'test://static-binary', name: 'binary', description: 'A picture', mimeType: 'image/png' },
  { uri: 'test://watched-resource', name: 'watched', description: 'A text', mimeType: 'text/plain' },
];

export const templates = [
  {
    uriTemplate: 'test://template/{id}/data',
    name: 'template',
    description: 'Data by number',
    mimeType: 'application/json',
  },
];

/** Returns the contents of a resource, or undefined. */
export function read(uri) {
  if (uri === 'test://static-text' || uri === 'test://watched-resource') {
    return { uri, mimeType: 'text/plain', text: 'This is the content of the static text resource.' };
  }
  if (uri === 'test://static-binary') {
    return { uri, mimeType: 'image/png', blob: PNG };
  }
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  const data = { id, templateTest: true, data: `Data for ID: ${id}` };
  return id && { uri, mimeType: 'application/json', text: JSON.stringify(data) };
}

const argument = (name) => ({ name, description: `The argument ${name}`, required: true });

export const prompts = [
  { name: 'test_simple_prompt', description: 'A prompt' },
  {
    name: 'test_prompt_with_arguments',
    description: 'A prompt with arguments',
    arguments: [argument('arg1'), argument('arg2')],
  },
  {
    name: 'test_prompt_with_embedded_resource',
    description: 'A prompt with a resource',
    arguments: [argument('resourceUri')],
  },
  { name: 'test_prompt_with_image', description: 'A prompt with a picture' },
];

/** Returns the messages of a prompt, or undefined. */
export function prompt(name, args = {}) {
  switch (name) {
    case 'test_simple_prompt':
      return [user(text('This is a simple prompt for testing.'))];
    case 'test_prompt_with_arguments':
      return [user(text(`Prompt with arguments: arg1='${args.arg1}', arg2='${args.arg2}'`))];
    case 'test_prompt_with_embedded_resource':
      return [
        user(embedded(args.resourceUri, 'text/plain', 'Embedded resource content for testing.')),
        user(text('Please process the embedded resource above.')),
      ];
    case 'test_prompt_with_image':
      return [user(image), user(text('Please analyze the image above.'))];
    default:
      return undefined;
  }
}

export const completion = { completion: { values: ['paris', 'park', 'party'], total: 3, hasMore: false } };

/** The schema of `test_elicitation_sep1034_defaults`. */
export const defaults = {
  type: 'object',
  properties: {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  },
};

const titled = (values, titles) => values.map((value, at) => ({ const: value, title: titles[at] }));
const values = ['value1', 'value2', 'value3'];
const options = ['option1', 'option2', 'option3'];

/** The schema of `test_elicitation_sep1330_enums`. */
export const enums = {
  type: 'object',
  properties: {
    untitledSingle: { type: 'string', enum: options },
    titledSingle: {
      type: 'string',
      oneOf: titled(values, ['First Option', 'Second Option', 'Third Option']),
    },
    legacyEnum: {
      type: 'string',
      enum: ['opt1', 'opt2', 'opt3'],
      enumNames: ['Option One', 'Option Two', 'Option Three'],
    },
    untitledMulti: { type: 'array', items: { type: 'string', enum: options } },
    titledMulti: {
      type: 'array',
      items: { anyOf: titled(values, ['First Choice', 'Second Choice', 'Third Choice']) },
    },
  },
};

/** The schema of `test_elicitation`. */
export const account = {
  type: 'object',
  properties: {
    username: { type: 'string', description: "User's response" },
    email: { type: 'string', description: "User's email address" },
  },
  required: ['username', 'email'],
};

/** Prints the address once the server listens. */
export function listen(http) {
  http.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => {
    console.log(`http://127.0.0.1:${http.address().port}/mcp`);
  });
  // Whoever started this server is gone when stdin ends.
  process.stdin.on('end', () => process.exit()).resume();
}
