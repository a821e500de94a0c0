// Program main drives rocketmq-client-go v2: one job as a JSON line on standard input, events as JSON
// lines on standard output.  A job that waits (consume, transact) ends with the standard input.
//
// The jobs and the events are the same for the clients of all languages; ../README.md lists them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type text struct {
	Body  string `json:"body"`
	Tags  string `json:"tags"`
	Keys  string `json:"keys"`
	Local string `json:"local"`
	Check string `json:"check"`
}

type job struct {
	Command    string `json:"command"`
	Mode       string `json:"mode"`
	Namesrv    string `json:"namesrv"`
	Group      string `json:"group"`
	Topic      string `json:"topic"`
	Expression string `json:"expression"`
	FailOnce   bool   `json:"failOnce"`
	Broadcast  bool   `json:"broadcast"`
	Ordered    bool   `json:"ordered"`
	Messages   []text `json:"messages"`
}

var (
	printing sync.Mutex
	input    = bufio.NewReader(os.Stdin)
)

func tell(event string, row map[string]any) {
	row["event"] = event
	line, _ := json.Marshal(row)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		tell("failed", map[string]any{"error": err.Error()})
		os.Exit(1)
	}
}

func main() {
	rlog.SetLogLevel("error")
	line, err := input.ReadBytes('\n')
	check(err)
	var todo job
	check(json.Unmarshal(line, &todo))
	switch todo.Command {
	case "produce":
		produce(todo)
	case "consume":
		consume(todo)
	case "transact":
		transact(todo)
	default:
		check(fmt.Errorf("there is no command %q", todo.Command))
	}
	tell("done", map[string]any{})
}

func untilInputEnds() {
	_, _ = io.Copy(io.Discard, input)
}

func resolver(todo job) primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{todo.Namesrv})
}

func message(todo job, one text) *primitive.Message {
	made := primitive.NewMessage(todo.Topic, []byte(one.Body))
	if one.Tags != "" {
		made.WithTag(one.Tags)
	}
	if one.Keys != "" {
		made.WithKeys([]string{one.Keys})
	}
	return made
}

func tellSent(result *primitive.SendResult) {
	tell("sent", map[string]any{
		"ok":    result.Status == primitive.SendOK,
		"id":    result.OffsetMsgID,
		"queue": result.MessageQueue.QueueId,
	})
}

func produce(todo job) {
	options := []producer.Option{
		producer.WithNsResolver(resolver(todo)),
		producer.WithGroupName(todo.Group),
		producer.WithSendMsgTimeout(10 * time.Second),
	}
	if todo.Mode == "ordered" {
		options = append(options, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	}
	made, err := rocketmq.NewProducer(options...)
	check(err)
	check(made.Start())
	ctx := context.Background()
	var batch []*primitive.Message
	var replies sync.WaitGroup
	for _, one := range todo.Messages {
		msg := message(todo, one)
		switch todo.Mode {
		case "batch":
			batch = append(batch, msg)
		case "oneway":
			check(made.SendOneWay(ctx, msg))
		case "async":
			replies.Add(1)
			check(made.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
				defer replies.Done()
				check(err)
				tellSent(result)
			}, msg))
		default:
			if todo.Mode == "ordered" {
				msg.WithShardingKey(one.Keys)
			}
			result, err := made.SendSync(ctx, msg)
			check(err)
			tellSent(result)
		}
	}
	if batch != nil {
		result, err := made.SendSync(ctx, batch...)
		check(err)
		tellSent(result)
	}
	replies.Wait()
	if todo.Mode == "oneway" {
		untilInputEnds()
	}
	check(made.Shutdown())
}

func consume(todo job) {
	model := consumer.Clustering
	if todo.Broadcast {
		model = consumer.BroadCasting
	}
	made, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(resolver(todo)),
		consumer.WithGroupName(todo.Group),
		consumer.WithInstance(fmt.Sprint(os.Getpid())),
		consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(todo.Ordered),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	check(err)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: todo.Expression}
	check(made.Subscribe(todo.Topic, selector, func(_ context.Context,
		arrived ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result := consumer.ConsumeSuccess
		for _, one := range arrived {
			tell("message", map[string]any{
				"body": string(one.Body), "tags": one.GetTags(), "keys": one.GetKeys(),
				"topic": one.Topic, "queue": one.Queue.QueueId, "times": one.ReconsumeTimes,
				"id": one.OffsetMsgId,
			})
			if todo.FailOnce && one.ReconsumeTimes == 0 {
				result = consumer.ConsumeRetryLater
			}
		}
		return result, nil
	}))
	check(made.Start())
	tell("ready", map[string]any{})
	untilInputEnds()
	check(made.Shutdown())
}

type judge struct{ texts map[string]text }

var verdicts = map[string]primitive.LocalTransactionState{
	"commit":   primitive.CommitMessageState,
	"rollback": primitive.RollbackMessageState,
	"unknown":  primitive.UnknowState,
}

func (j judge) ExecuteLocalTransaction(msg *primitive.Message) primitive.LocalTransactionState {
	return verdicts[j.texts[string(msg.Body)].Local]
}

func (j judge) CheckLocalTransaction(msg *primitive.MessageExt) primitive.LocalTransactionState {
	tell("checked", map[string]any{"body": string(msg.Body)})
	return verdicts[j.texts[string(msg.Body)].Check]
}

func transact(todo job) {
	texts := map[string]text{}
	for _, one := range todo.Messages {
		texts[one.Body] = one
	}
	made, err := rocketmq.NewTransactionProducer(judge{texts},
		producer.WithNsResolver(resolver(todo)), producer.WithGroupName(todo.Group))
	check(err)
	check(made.Start())
	for _, one := range todo.Messages {
		result, err := made.SendMessageInTransaction(context.Background(), message(todo, one))
		check(err)
		tellSent(result.SendResult)
	}
	untilInputEnds()
	check(made.Shutdown())
}
