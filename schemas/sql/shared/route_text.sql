concat(
    '{"brokerDatas":[', array_join(transform(filter({parts}, e -> e.part = 'brokerDatas'), e -> e.text), ','),
    '],"filterServerTable":{', array_join(transform(filter({parts}, e -> e.part = 'filterServerTable'), e -> e.text), ','), '}',
    array_join(transform(filter({parts}, e -> e.part = 'orderTopicConf'), e -> concat(',"orderTopicConf":', e.text)), ''),
    ',"queueDatas":[', array_join(transform(filter({parts}, e -> e.part = 'queueDatas'), e -> e.text), ','), ']',
    IF(
        size(filter({parts}, e -> e.part = 'topicQueueMappingByBroker')) > 0,
        concat(
            ',"topicQueueMappingByBroker":{',
            array_join(transform(filter({parts}, e -> e.part = 'topicQueueMappingByBroker'), e -> e.text), ','), '}'
        ),
        ''
    ),
    '}'
)
