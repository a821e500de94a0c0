// The Go SDK at work: see ../README.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

var endpoint, name = os.Args[1], os.Args[2]

func say(event string, fields map[string]any) {
	row := map[string]any{"event": event}
	for key, value := range fields {
		row[key] = value
	}
	text, _ := json.Marshal(row)
	fmt.Println(string(text))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func config(group string) *rmq.Config {
	return &rmq.Config{
		Endpoint: endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{},
	}
}

func all(kind string) map[string]*rmq.FilterExpression {
	return map[string]*rmq.FilterExpression{name + "-" + kind: rmq.SUB_ALL}
}

func receive(kind, group string) {
	consumer, err := rmq.NewSimpleConsumer(config(name+"-"+group),
		rmq.WithSimpleAwaitDuration(5*time.Second), rmq.WithSimpleSubscriptionExpressions(all(kind)))
	must(err)
	must(consumer.Start())
	deadline := time.Now().Add(30 * time.Second)
	for got := 0; got == 0 && time.Now().Before(deadline); {
		found, err := consumer.Receive(context.Background(), 16, 20*time.Second)
		if err != nil {
			continue // nothing to receive is an error of this SDK
		}
		for _, one := range found {
			say("received", map[string]any{
				"topic": kind, "body": string(one.GetBody()), "tag": one.GetTag(),
				"keys": one.GetKeys(), "properties": one.GetProperties(),
				"attempt": one.GetDeliveryAttempt(),
			})
			must(consumer.Ack(context.Background(), one))
			got++
		}
	}
	must(consumer.GracefulStop())
}

func main() {
	os.Setenv("mq.consoleAppender.enabled", "false")
	rmq.ResetLogger()
	producer, err := rmq.NewProducer(config(""),
		rmq.WithTopics(name+"-normal", name+"-fifo", name+"-delay"))
	must(err)
	must(producer.Start())
	message := &rmq.Message{Topic: name + "-normal", Body: []byte("plain")}
	message.SetTag("blue")
	message.SetKeys("key-1")
	message.AddProperty("a", "1")
	receipts, err := producer.Send(context.Background(), message)
	must(err)
	say("sent", map[string]any{"topic": "normal", "id": receipts[0].MessageID})
	message = &rmq.Message{Topic: name + "-fifo", Body: []byte("ordered")}
	message.SetMessageGroup("group")
	_, err = producer.Send(context.Background(), message)
	must(err)
	message = &rmq.Message{Topic: name + "-delay", Body: []byte("late")}
	message.SetDelayTimestamp(time.Now().Add(3 * time.Second))
	_, err = producer.Send(context.Background(), message)
	must(err)
	receive("normal", "simple")
	receive("fifo", "ordered")
	receive("delay", "late")
	heard := make(chan string, 100)
	push, err := rmq.NewPushConsumer(config(name+"-push"),
		rmq.WithPushAwaitDuration(5*time.Second), rmq.WithPushSubscriptionExpressions(all("normal")),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{
			Consume: func(found *rmq.MessageView) rmq.ConsumerResult {
				heard <- string(found.GetBody())
				return rmq.SUCCESS
			},
		}))
	must(err)
	must(push.Start())
	select {
	case body := <-heard:
		say("pushed", map[string]any{"body": body})
	case <-time.After(20 * time.Second):
	}
	must(push.GracefulStop())
	must(producer.GracefulStop())
	say("end", nil)
}
