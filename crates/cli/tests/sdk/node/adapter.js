// Makes the calls it is told to, each with one real SDK that is used unchanged.
//
// Usage: adapter.js SDK, in a folder with the packages. Lines are as in adapter.py.
'use strict';

const path = require('node:path');
const readline = require('node:readline');

const load = (name) => require(path.join(process.cwd(), 'node_modules', name));

const SDKS = {
  stripe() {
    const Stripe = load('stripe');
    return {
      errors: [Stripe.errors.StripeError],
      async create(call) {
        const url = new URL(call.url);
        const client = new Stripe('sk_test_1', {
          host: url.hostname,
          port: url.port,
          protocol: 'http',
          maxNetworkRetries: call.retries ? 3 : 0,
          ...(call.timeout && { timeout: call.timeout * 1000 }),
        });
        const options = call.key ? { idempotencyKey: call.key } : {};
        return (await client.customers.create({ name: call.name }, options)).id;
      },
    };
  },

  'modern-treasury'() {
    const ModernTreasury = load('modern-treasury');
    return {
      errors: [ModernTreasury.APIError],
      async create(call) {
        const client = new ModernTreasury({
          apiKey: 'key-1',
          organizationID: 'org-1',
          baseURL: call.url,
          maxRetries: call.retries ? 2 : 0,
          ...(call.timeout && { timeout: call.timeout * 1000 }),
        });
        const options = call.key ? { idempotencyKey: call.key } : {};
        return (await client.counterparties.create({ name: call.name }, options)).id;
      },
    };
  },

  svix() {
    const { ApiException, Svix } = load('svix');
    return {
      errors: [ApiException],
      async create(call) {
        const client = new Svix('testsk_1.eu', {
          serverUrl: call.url,
          ...(!call.retries && { numRetries: 0 }),
          ...(call.timeout && { requestTimeout: call.timeout * 1000 }),
        });
        const options = call.key ? { idempotencyKey: call.key } : {};
        return (await client.application.create({ name: call.name }, options)).id;
      },
    };
  },
};

// What a program that catches `error` can tell from it.
function told(error, sdk) {
  const text = [String(error.message)];
  for (const member of [error.body, error.error]) {
    if (member) text.push(JSON.stringify(member));
  }
  return {
    class: error.constructor.name,
    own: sdk.errors.some((kind) => error instanceof kind),
    message: text.join('\n'),
  };
}

const sdk = SDKS[process.argv[2]]();
readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const call = JSON.parse(line);
  let said;
  try {
    said = { id: call.id, made: await sdk.create(call) };
  } catch (error) {
    said = { id: call.id, error: told(error, sdk) };
  }
  process.stdout.write(JSON.stringify(said) + '\n');
}).on('close', () => process.exit(0));
