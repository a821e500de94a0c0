'use strict';
// Drives ali-ons: one job as a JSON line on standard input, events as JSON lines on standard output.
// A job that waits (consume) ends with the standard input.  ../README.md lists jobs and events.

const readline = require('readline');
const { Consumer, Message, Producer } = require('ali-ons');

const quiet = { info() {}, debug() {}, warn() {}, error: (...words) => console.error(...words) };

function tell(event, row) {
  process.stdout.write(JSON.stringify({ event, ...row }) + '\n');
}

function fail(error) {
  tell('failed', { error: String((error && error.stack) || error) });
  process.exit(1);
}

function options(job) {
  return {
    httpclient: { request: () => Promise.reject(new Error('the name server is given')) },
    nameSrv: job.namesrv,
    accessKeyId: 'any',
    accessKeySecret: 'any',
    logger: quiet,
    rebalanceInterval: 1000,
    persistConsumerOffsetInterval: 1000,
  };
}

async function produce(job) {
  const producer = new Producer({ ...options(job), producerGroup: job.group });
  producer.on('error', fail);
  await producer.ready();
  for (const one of job.messages) {
    const message = new Message(job.topic, one.tags || '', one.body);
    if (one.keys) message.keys = [ one.keys ];
    const sent = await producer.send(message);
    tell('sent', {
      ok: sent.sendStatus === 'SEND_OK', id: sent.msgId, queue: sent.messageQueue.queueId,
    });
  }
  await producer.close();
}

async function consume(job, ended) {
  const consumer = new Consumer({
    ...options(job),
    consumerGroup: job.group,
    isBroadcast: Boolean(job.broadcast),
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  });
  consumer.on('error', error => tell('complaint', { error: String(error) }));
  consumer.subscribe(job.topic, job.expression || '*', async message => {
    tell('message', {
      body: message.body.toString(), tags: message.tags, keys: message.keys,
      topic: message.topic, queue: message.queueId, times: message.reconsumeTimes,
      id: message.msgId,
    });
    if (job.failOnce && message.reconsumeTimes === 0) throw new Error('once more, please');
  });
  await consumer.ready();
  tell('ready', {});
  await ended;
  await consumer.close();
}

async function main() {
  const lines = readline.createInterface({ input: process.stdin });
  const ended = new Promise(resolve => lines.on('close', resolve));
  const job = JSON.parse(await new Promise(resolve => lines.once('line', resolve)));
  const commands = { produce, consume };
  if (!commands[job.command]) throw new Error(`there is no command ${job.command}`);
  await commands[job.command](job, ended);
  tell('done', {});
  process.exit(0);
}

main().catch(fail);
