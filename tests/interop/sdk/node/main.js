// The Node SDK at work: see ../README.md.
'use strict';

const {
  ConsumeResult, Producer, PushConsumer, SimpleConsumer,
} = require('rocketmq-client-nodejs');

const [endpoints, name] = process.argv.slice(2);
const logger = { info() {}, warn() {}, error() {}, debug() {}, close() {} };
const say = (event, fields) => console.log(JSON.stringify({ event, ...fields }));
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

async function receive(kind, group) {
  const consumer = new SimpleConsumer({
    endpoints, logger, consumerGroup: `${name}-${group}`, awaitDuration: 5000,
    subscriptions: new Map().set(`${name}-${kind}`, '*'),
  });
  await consumer.startup();
  const deadline = Date.now() + 30000;
  for (let got = 0; !got && Date.now() < deadline;) {
    for (const found of await consumer.receive(16)) {
      say('received', {
        topic: kind, body: found.body.toString(), tag: found.tag, keys: found.keys,
        properties: Object.fromEntries(found.properties), attempt: found.deliveryAttempt,
      });
      await consumer.ack(found);
      got++;
    }
  }
  await consumer.shutdown();
}

async function main() {
  const topics = ['normal', 'fifo', 'delay'].map(kind => `${name}-${kind}`);
  const producer = new Producer({ endpoints, logger, topics });
  await producer.startup();
  const receipt = await producer.send({
    topic: topics[0], tag: 'blue', keys: ['key-1'], body: Buffer.from('plain'),
    properties: new Map([['a', '1']]),
  });
  say('sent', { topic: 'normal', id: receipt.messageId });
  await producer.send({ topic: topics[1], messageGroup: 'group', body: Buffer.from('ordered') });
  await producer.send({ topic: topics[2], delay: 3000, body: Buffer.from('late') });
  await receive('normal', 'simple');
  await receive('fifo', 'ordered');
  await receive('delay', 'late');
  let heard = false;
  const push = new PushConsumer({
    endpoints, logger, consumerGroup: `${name}-push`,
    subscriptions: new Map().set(topics[0], '*'),
    messageListener: {
      async consume(found) {
        say('pushed', { body: found.body.toString() });
        heard = true;
        return ConsumeResult.SUCCESS;
      },
    },
  });
  await push.startup();
  for (let i = 0; i < 200 && !heard; i++) await pause(100);
  await push.shutdown();
  await producer.shutdown();
  say('end');
  process.exit(0);
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
